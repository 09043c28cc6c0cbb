// The state of the page, kept in the URL fragment, so that a link restores it.
export class State {
  // `tidy` replaces values that cannot be shown: the URL may contain anything.
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
    const changed = Object.entries(this.values).filter(([name, value]) => value !== this.defaults[name]);
    try {
      history.replaceState(null, "", `#${new URLSearchParams(changed)}`);
    } catch {
      // A sandboxed frame may not change its URL; the page works without.
    }
  }
}
