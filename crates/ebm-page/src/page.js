// The script of every page: it records errors, switches the theme and sorts tables. Plain functions, shared by the
// scripts that follow it.
"use strict";

/** What went wrong so far stands in this attribute of the root element, so that a program can look. */
const ERRORS = "data-errors";

/** @param {string} message */
function recordError(message) {
  const root = document.documentElement;
  root.setAttribute(ERRORS, [root.getAttribute(ERRORS), message].filter(Boolean).join("; "));
}

window.addEventListener("error", (event) => recordError(event.message));
window.addEventListener("unhandledrejection", (event) => recordError(String(event.reason)));
document.addEventListener("securitypolicyviolation", (event) => recordError(`refused: ${event.violatedDirective}`));

/**
 * What this browser remembers of a choice; a page that was opened from a disk may remember nothing.
 * @param {string} key
 * @param {string=} value what to remember
 * @returns {string | null}
 */
function remembered(key, value) {
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** The button of class `theme` goes from the system's theme to the light and the dark one. */
function themeSwitch() {
  const button = document.querySelector("button.theme");
  if (!(button instanceof HTMLButtonElement)) return;
  const themes = ["system", "light", "dark"];
  let theme = remembered("ebm-theme") || "system";
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    remembered("ebm-theme", theme);
    show();
  });
  show();
}

/** A number and perhaps what follows it: a spread, a unit. */
const NUMBER = /^[+−-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?($|\s|%)/i;

/**
 * The number that a cell states or begins with; NaN where there is none.
 * @param {HTMLTableCellElement | undefined} cell
 */
function numberOf(cell) {
  const text = cell?.dataset.value ?? (cell?.textContent ?? "").trim();
  return NUMBER.test(text) ? Number.parseFloat(text.replace("−", "-")) : Number.NaN;
}

/**
 * Whether a column holds numbers, or nothing in their place.
 * @param {HTMLTableRowElement[]} rows
 * @param {number} column
 */
function isNumeric(rows, column) {
  const cells = rows.map((row) => row.cells[column]);
  const empty = (/** @type {HTMLTableCellElement | undefined} */ cell) => /^[–-]?$/.test((cell?.textContent ?? "").trim());
  return cells.some((cell) => !Number.isNaN(numberOf(cell))) && cells.every((cell) => empty(cell) || !Number.isNaN(numberOf(cell)));
}

/**
 * @param {HTMLTableElement} table
 * @param {number} column
 * @param {number} sign 1 for ascending
 */
function sortTable(table, column, sign) {
  const body = table.tBodies[0];
  const numeric = isNumeric(Array.from(body.rows), column);
  const rows = Array.from(body.rows, (row) => {
    const cell = row.cells[column];
    return { row, number: numberOf(cell), text: (cell?.textContent ?? "").trim() };
  });
  rows.sort((a, b) => {
    if (!numeric) return sign * a.text.localeCompare(b.text, "en", { numeric: true });
    // What is no number comes last, whatever the order.
    const [none, other] = [Number.isNaN(a.number), Number.isNaN(b.number)];
    return none || other ? Number(none) - Number(other) : sign * (a.number - b.number);
  });
  for (const { row } of rows) body.append(row);
}

/** Columns of numbers are aligned to the right. A click on a column's name sorts by it, a second one the other way round. */
function sortableTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    if (!(table instanceof HTMLTableElement) || !table.tHead || !table.tBodies[0]) continue;
    const heads = Array.from(table.tHead.rows[0].cells);
    const rows = Array.from(table.tBodies[0].rows);
    heads.forEach((head, column) => {
      if (isNumeric(rows, column)) for (const row of [table.tHead?.rows[0], ...rows]) row?.cells[column]?.classList.add("number");
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sortTable(table, column, descending ? -1 : 1);
      });
    });
  }
}

/**
 * The data that the page holds in the element `id`.
 * @param {string} id
 * @returns {any} null where there is no such element
 */
function pageData(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent ?? "null") : null;
}

window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

/** A page that is written anew while something goes on asks for itself, if its server, where it has one, still answers. */
function reloading() {
  const notice = document.querySelector("[data-reload]");
  const seconds = Number(notice?.getAttribute("data-reload"));
  const alive = notice?.getAttribute("data-alive");
  const reload = async () => {
    try {
      if (alive) await fetch(alive, { cache: "no-store" });
      location.reload();
    } catch {
      if (notice) notice.textContent = "What this page shows is over; this is how it was last.";
    }
  };
  if (seconds > 0) setTimeout(reload, 1000 * seconds);
}

themeSwitch();
reloading();
sortableTables();
