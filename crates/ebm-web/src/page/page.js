// The script of every page: it records errors, sorts tables and loads the page anew. Plain functions, shared by the scripts
// that follow it.
"use strict";

/** What went wrong so far stands in an attribute of the root element, so that a program can look. */
function recordError(message) {
  const { dataset } = document.documentElement;
  dataset.errors = [dataset.errors, message].filter(Boolean).join("; ");
}

window.addEventListener("error", (event) => recordError(event.message));
window.addEventListener("unhandledrejection", (event) => recordError(String(event.reason)));
document.addEventListener("securitypolicyviolation", (event) => recordError(`refused: ${event.violatedDirective}`));

/** A number and perhaps what follows it: a spread, a unit. */
const NUMBER = /^[+−-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?($|\s|%)/i;

/** The number that a cell states or begins with; NaN where there is none. */
function numberOf(cell) {
  const text = cell?.dataset.value ?? (cell?.textContent ?? "").trim();
  return NUMBER.test(text) ? Number.parseFloat(text.replace("−", "-")) : Number.NaN;
}

/** Whether a column holds numbers, or nothing in their place. */
function isNumeric(rows, column) {
  const cells = rows.map((row) => row.cells[column]);
  const isEmpty = (cell) => /^[–-]?$/.test((cell?.textContent ?? "").trim());
  const isNumber = (cell) => !Number.isNaN(numberOf(cell));
  return cells.some(isNumber) && cells.every((cell) => isEmpty(cell) || isNumber(cell));
}

/** `sign` is 1 for ascending; what is no number comes last, whatever the order. */
function sortTable(body, column, sign) {
  const numeric = isNumeric([...body.rows], column);
  const rows = Array.from(body.rows, (row) => {
    const cell = row.cells[column];
    return { row, number: numberOf(cell), text: (cell?.textContent ?? "").trim() };
  });
  rows.sort((a, b) => {
    if (!numeric) return sign * a.text.localeCompare(b.text, "en", { numeric: true });
    const [none, other] = [Number.isNaN(a.number), Number.isNaN(b.number)];
    return none || other ? Number(none) - Number(other) : sign * (a.number - b.number);
  });
  body.append(...rows.map(({ row }) => row));
}

/** Columns of numbers are aligned to the right. A click on a column's name sorts by it, a second one the other way round. */
function sortableTables() {
  for (const table of document.querySelectorAll("table")) {
    if (!table.tHead || !table.tBodies[0]) continue;
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows];
    heads.forEach((head, column) => {
      if (isNumeric(rows, column)) for (const row of [table.tHead.rows[0], ...rows]) row.cells[column]?.classList.add("number");
      const button = document.createElement("button");
      Object.assign(button, { type: "button", title: "Sort by this column" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const isDescending = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
        sortTable(table.tBodies[0], column, isDescending ? -1 : 1);
      });
    });
  }
}

/** A page of something that goes on asks for itself, as long as its server answers. */
function reloading() {
  const notice = document.querySelector("[data-reload]");
  if (!notice) return;
  setTimeout(async () => {
    try {
      await fetch("alive", { cache: "no-store" });
      location.reload();
    } catch {
      notice.textContent = "What this page shows is over; this is how it was last.";
    }
  }, 1000 * Number(notice.dataset.reload));
}

reloading();
sortableTables();
document.documentElement.dataset.ready = "true";
