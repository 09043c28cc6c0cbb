// What is shown, kept in the page's address, so that a link restores it.
export class State {
  // `tidy` returns values that can be shown: an address may ask for anything.
  constructor(defaults, tidy) {
    this.defaults = defaults;
    this.tidy = tidy;
    this.values = tidy({ ...defaults, ...this.read() });
    this.listeners = [];
    addEventListener("hashchange", () => this.set({ ...this.defaults, ...this.read() }));
  }

  read() {
    const found = {};
    for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
      if (!(name in this.defaults)) continue;
      const isNumber = typeof this.defaults[name] === "number";
      if (!isNumber) found[name] = text;
      else if (/^-?\d{1,6}$/.test(text)) found[name] = Number(text);
    }
    return found;
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  set(changes) {
    const before = this.values;
    this.values = this.tidy({ ...before, ...changes });
    const changed = new Set(Object.keys(before).filter((name) => before[name] !== this.values[name]));
    if (!changed.size) return;
    this.write();
    this.listeners.forEach((listener) => listener(changed));
  }

  write() {
    const told = Object.entries(this.values).filter(([name, value]) => value !== this.defaults[name]);
    try {
      history.replaceState(null, "", `#${new URLSearchParams(told)}`);
    } catch {
      // A page inside another may not have an address of its own; it works without.
    }
  }
}
