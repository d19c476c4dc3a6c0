/** What the browser keeps for the page. If it keeps nothing, this visit remembers it. */

const memory = new Map();

/** The text under a key, or null; `forSession`: of this visit only, such as a token. */
export function stored(key, { forSession = false } = {}) {
  try {
    return (forSession ? sessionStorage : localStorage).getItem(key);
  } catch {
    return memory.get(key) ?? null; // switched off in the browser
  }
}

/** Keep a text under a key. */
export function store(key, value, { forSession = false } = {}) {
  try {
    (forSession ? sessionStorage : localStorage).setItem(key, value);
  } catch {
    memory.set(key, String(value));
  }
}

/** Let the browser save a file. */
export function saveFile(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
