// What all tabs share: elements by id, requests, messages, files.

/**
 * The element with this id.
 * @param {string} id
 * @returns {any}
 */
export function at(id) {
  return document.getElementById(id);
}

/**
 * Asks the server; the token is in the page's own address.
 * @param {string} path
 * @param {unknown} body JSON, or a file
 * @returns {Promise<any>}
 */
export async function ask(path, body) {
  const content = body instanceof Blob ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(`api/${path}`, { method: "POST", body: content });
  } catch {
    throw new Error("the server does not answer; is `ebm demo` still running?");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/**
 * Says something below the picture of a tab.
 * @param {string} tab
 * @param {string} text
 * @param {boolean} isError
 */
export function say(tab, text, isError = false) {
  const status = at(`${tab}-status`);
  status.textContent = text;
  status.classList.toggle("error", isError);
}

/**
 * Runs what the user has asked for, and says why where it fails.
 * @param {string} tab
 * @param {() => Promise<void>} work
 */
export async function attempt(tab, work) {
  try {
    await work();
  } catch (error) {
    say(tab, error instanceof Error ? error.message : String(error), true);
  }
}

/**
 * Gives a tab the file that is chosen, or dropped while the tab is shown.
 * @param {string} tab
 * @param {(file: File) => Promise<void>} take
 */
export function takeFiles(tab, take) {
  const input = at(`${tab}-file`);
  const given = (/** @type {File | undefined} */ file) => file && attempt(tab, () => take(file));
  input.addEventListener("change", () => given(input.files[0]));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    at(`${tab}-drop`).classList.remove("over");
    if (!at(tab).hidden) given(event.dataTransfer?.files[0]);
  });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    at(`${tab}-drop`).classList.add("over");
  });
  document.addEventListener("dragleave", () => at(`${tab}-drop`).classList.remove("over"));
}

/**
 * Fills a list of names and numbers, and keeps the numbers in full as data of the list.
 * @param {string} id
 * @param {[string, string, string][]} entries key, name, and the number as it is read
 * @param {Record<string, unknown>} numbers by key
 */
export function tell(id, entries, numbers) {
  const list = at(id);
  list.replaceChildren(...entries.flatMap(([key, name, text]) => {
    const [term, value] = [document.createElement("dt"), document.createElement("dd")];
    [term.textContent, value.textContent] = [name, text];
    list.dataset[key] = JSON.stringify(numbers[key] ?? null);
    return [term, value];
  }));
}

/** Bytes that the server takes. */
const MOST_BYTES = 16 * 2 ** 20;

/**
 * Refuses a file that the server would refuse, before it is sent.
 * @param {File} file
 */
export function checkSize(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} has more than ${MOST_BYTES / 2 ** 20} MiB; choose a smaller one`);
}
