// The script of every page: it records errors, sorts tables and reloads the page. Later scripts use its functions, which
// are global.
"use strict";

/** Records an error in an attribute of the root element, where programs can read it. */
function recordError(message) {
  const { dataset } = document.documentElement;
  dataset.errors = [dataset.errors, message].filter(Boolean).join("; ");
}

window.addEventListener("error", (event) => recordError(event.message));
window.addEventListener("unhandledrejection", (event) => recordError(String(event.reason)));
document.addEventListener("securitypolicyviolation", (event) => recordError(`refused: ${event.violatedDirective}`));

/** Matches a number, optionally followed by a spread or a unit. */
const NUMBER = /^[+−-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?($|\s|%)/i;

/** Returns the number that a cell holds or begins with; NaN without one. */
function numberOf(cell) {
  const text = cell?.dataset.value ?? (cell?.textContent ?? "").trim();
  return NUMBER.test(text) ? Number.parseFloat(text.replace("−", "-")) : Number.NaN;
}

/** Returns whether a column holds only numbers and empty cells. */
function isNumeric(rows, column) {
  const cells = rows.map((row) => row.cells[column]);
  const isEmpty = (cell) => /^[–-]?$/.test((cell?.textContent ?? "").trim());
  const isNumber = (cell) => !Number.isNaN(numberOf(cell));
  return cells.some(isNumber) && cells.every((cell) => isEmpty(cell) || isNumber(cell));
}

/** Sorts rows by a column; `sign` is 1 for ascending and -1 for descending. Cells without a number always come last. */
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

/** Aligns columns of numbers to the right. A click on a column's name sorts by it, a second click reverses the order. */
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

/** Reloads the page of a running training periodically, as long as its server answers. */
function reloading() {
  const notice = document.querySelector("[data-reload]");
  if (!notice) return;
  setTimeout(async () => {
    try {
      await fetch("alive", { cache: "no-store" });
      location.reload();
    } catch {
      notice.textContent = "The server has stopped; this is the last state of the page.";
    }
  }, 1000 * Number(notice.dataset.reload));
}

reloading();
sortableTables();
document.documentElement.dataset.ready = "true";
