// The tabs.

import { startAges } from "./ages.js";
import { startBoxes } from "./boxes.js";
import { at } from "./common.js";
import { startToy } from "./toy.js";

/** Shows the panel of one tab. */
function startTabs() {
  const tabs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[role=tab]")]);
  const show = (/** @type {HTMLElement} */ shown) => {
    for (const tab of tabs) {
      const isShown = tab === shown;
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
      at(/** @type {string} */ (tab.getAttribute("aria-controls"))).hidden = !isShown;
    }
    document.dispatchEvent(new CustomEvent("shown", { detail: shown.getAttribute("aria-controls") }));
  };
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(place + step + tabs.length) % tabs.length];
      show(next);
      next.focus();
    });
  });
  show(tabs[0]);
}

startBoxes();
startToy();
startAges();
startTabs();
