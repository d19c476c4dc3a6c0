/** Stores texts in the browser. If the browser cannot store a text, memory keeps it until the page is closed. */

const [local, session] = [new Map(), new Map()];

addEventListener("storage", ({ key }) => {
  if (key === null) local.clear();
  else local.delete(key); // another tab has stored a newer text
});

/** The text under a key, or null. With `forSession`, it is a text of this tab alone, such as a token. */
export function stored(key, { forSession = false } = {}) {
  const memory = forSession ? session : local;
  if (memory.has(key)) return memory.get(key); // newer than the text in the browser
  try {
    return (forSession ? sessionStorage : localStorage).getItem(key);
  } catch {
    return null; // the browser's storage is disabled
  }
}

/** Store a text under a key. Returns whether the browser stores it; the storage may be full or disabled. */
export function store(key, value, { forSession = false } = {}) {
  const memory = forSession ? session : local;
  try {
    (forSession ? sessionStorage : localStorage).setItem(key, value);
    memory.delete(key);
    return true;
  } catch {
    memory.set(key, String(value));
    return false;
  }
}

/** The texts under all keys that begin with a prefix. */
export function allStored(prefix) {
  let keys = [...local.keys()];
  try {
    keys = [...new Set([...keys, ...Object.keys(localStorage)])];
  } catch {
    // the browser's storage is disabled
  }
  return keys.filter((key) => key.startsWith(prefix)).map((key) => stored(key));
}

/** Delete the text under a key. */
export function unstore(key) {
  local.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    // the browser's storage is disabled
  }
}

/** Whether the browser, and not only memory, has the last text that was stored under a key. */
export const isKept = (key) => !local.has(key);

/** Let the browser save a file. */
export function saveFile(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
