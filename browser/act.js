// The dry run of an action, the parts of it that are not input events, and the wait for the page to settle.
// Evaluated after observe.js in the same world.
globalThis.lessor.act ??= (() => {
  "use strict";
  const { Reading, boxOf, isChoice, isDisabled, isSecret, isShown, observe, originOf, read, standsFor } = globalThis.lessor;
  const SETTLE_MS = 100;
  const EDITABLE = /^(text|search|email|url|tel|number|password)$/;
  const ASSIGNED = /^(date|time|month|week|datetime-local|color|range)$/;
  const POINTER = ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "auxclick", "dblclick"];

  const elementAt = (root, x, y) =>
    (root === document ? Document : ShadowRoot).prototype.elementFromPoint.call(root, x, y);
  const focusedIn = Object.getOwnPropertyDescriptor(Document.prototype, "activeElement").get;

  function focused() {
    let element = focusedIn.call(document);
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    return element;
  }

  /** The element, what is inside it, or a label of it: whatever makes a press its own. */
  function owns(element, hit) {
    for (let node = hit; node; node = node.parentNode ?? node.host ?? null) {
      if (node === element) return true;
      if (node.localName === "label" && node.control === element) return true;
    }
    return false;
  }

  function hitAt(x, y) {
    let hit = elementAt(document, x, y);
    while (hit?.shadowRoot) {
      const inner = elementAt(hit.shadowRoot, x, y);
      if (inner === null || inner === hit) break;
      hit = inner;
    }
    return hit;
  }

  /** The middle of the element where it can be seen, in CSS pixels; null when there is no such place. */
  function pointOf(element) {
    const inView = (box) => {
      const [left, top] = [Math.max(box.left, 0), Math.max(box.top, 0)];
      const [right, bottom] = [Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)];
      return right - left >= 1 && bottom - top >= 1 ? { x: (left + right) / 2, y: (top + bottom) / 2 } : null;
    };
    const first = boxOf(element);
    if (first === null) return null;
    const isWhole = first.left >= 0 && first.top >= 0 && first.right <= innerWidth && first.bottom <= innerHeight;
    if (!isWhole || !owns(element, hitAt(first.left + first.width / 2, first.top + first.height / 2)))
      element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const box = boxOf(element);
    return box && inView(box);
  }

  const isEditable = (element) =>
    element.isContentEditable || element.localName === "textarea" ||
    (element.localName === "input" && (EDITABLE.test(element.type) || ASSIGNED.test(element.type)));

  function chosen(element, wanted) {
    const options = [...element.options];
    return wanted.map((text) => options.find((option) => !option.disabled && option.value === text)
      ?? options.find((option) => !option.disabled && option.label.trim() === text.trim()));
  }

  /** What stands in the way of this action on this element; null when nothing does. */
  function obstacle(element, action) {
    if (!element.isConnected || element.ownerDocument !== document) return "removed";
    if (!isShown(element)) return "hidden";
    const control = standsFor(element) ?? element;
    if (isDisabled(control)) return "disabled";
    switch (action.do) {
      case "type":
        if (isSecret(control) && !action.secret) return "secret";
        if (!isSecret(control) && action.secret) return "not_secret";
        if (!isEditable(control)) return "not_editable";
        if (control.readOnly) return "disabled";
        break;
      case "select":
        if (control.localName !== "select") return "not_a_list";
        if (action.options.length > 1 && !control.multiple) return "one_option_only";
        if (chosen(control, action.options).includes(undefined)) return "no_such_option";
        break;
      case "check":
        if (!/^(checkbox|radio)$/.test(control.type) && control.ariaChecked === null) return "not_checkable";
        if (!action.on && control.type === "radio") return "radio_stays_on";
        break;
      case "upload":
        if (control.localName !== "input" || control.type !== "file") return "not_a_file_field";
        if (action.artifacts.length > 1 && !control.multiple) return "one_file_only";
        break;
      case "press":
        if (action.typed && isSecret(control)) return "secret";
        break;
      case "scroll": return null;
    }
    const point = pointOf(element);
    if (point === null) return "hidden";
    return owns(element, hitAt(point.x, point.y)) || owns(control, hitAt(point.x, point.y)) ? null : "covered";
  }

  /** Dry run: what is in the way, what the element is now, and the digest of the whole page. */
  function aim(element, action) {
    const target = element ?? focused() ?? document.documentElement;
    const isNamed = element !== null;
    const way = isNamed ? obstacle(target, action) : action.typed && isSecret(target) ? "secret" : null;
    const described = way === "removed" ? { role: "", name: "", fingerprint: "" } : new Reading().describe(target);
    const { view } = way === null ? read() : { view: { digest: "" } };
    const point = way === null && isNamed && action.do !== "scroll" ? pointOf(target) : null;
    return [JSON.stringify({ obstacle: way, ...described, state: undefined, digest: view.digest, url: location.href,
      frames: view.frames?.length ?? 0, x: point?.x ?? 0, y: point?.y ?? 0 }), document];
  }

  // A press meant for one element that meets another is swallowed before the page hears of it: this listener
  // is the window's first, unless it was added to a document that already ran.
  const isFirst = document.readyState === "loading" && !document.documentElement?.hasChildNodes();
  let armed = null;
  const guard = (event) => {
    if (armed === null || !event.isTrusted) return;
    const [hit] = event.composedPath();
    if (armed.verdict === null) armed.verdict = owns(armed.element, hit) || owns(armed.control, hit) ? "hit" : "missed";
    if (armed.verdict === "missed") {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  };
  for (const name of POINTER) addEventListener(name, guard, { capture: true, passive: false });

  const isOn = (control) => (isChoice(control) ? control.checked : control.ariaChecked === "true");

  function assign(element, value) {
    const type = element.localName === "select" ? HTMLSelectElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(type.prototype, "value").set.call(element, value);
    report(element);
  }
  function report(element) {
    element.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function scrollBox(by) {
    let box = hitAt(innerWidth / 2, innerHeight / 2);
    const moves = (element) => element.scrollHeight > element.clientHeight &&
      /auto|scroll|overlay/.test(getComputedStyle(element).overflowY) &&
      (by > 0 ? element.scrollTop + element.clientHeight < element.scrollHeight - 1 : element.scrollTop > 0);
    while (box && !moves(box)) box = box.parentElement ?? box.getRootNode().host ?? null;
    return box ?? document.scrollingElement;
  }

  /** The last look, and in the same breath whatever of the action is no input event.
   * `next` says which input follows: a press at `x`, `y`, text into what has the focus, keys, or none. */
  function begin(element, action, fingerprint) {
    const target = element ?? focused() ?? document.documentElement;
    if (element !== null) {
      const way = obstacle(element, action);
      if (way !== null) return { obstacle: way };
      if (new Reading().describe(element).fingerprint !== fingerprint) return { obstacle: "changed" };
    } else if (action.typed && isSecret(target)) return { obstacle: "secret" };
    const control = standsFor(target) ?? target;
    switch (action.do) {
      case "check":
        if (isOn(control) === action.on) return { next: "none" };
      // falls through
      case "click": {
        armed = { element: target, control, verdict: null };
        return { next: "press", ...pointOf(target) };
      }
      case "hover": return { next: "move", ...pointOf(target) };
      case "type":
        control.focus();
        if (control.localName === "input" && ASSIGNED.test(control.type)) {
          assign(control, action.text);
          return { next: "none" };
        }
        if (control.isContentEditable) getSelection().selectAllChildren(control);
        else control.select();
        return { next: action.text === "" && !action.secret ? "delete" : "text" };
      case "select": {
        const options = chosen(control, action.options);
        control.focus();
        for (const option of control.options) option.selected = options.includes(option);
        report(control);
        return { next: "none" };
      }
      case "upload":
        return { next: "files" };
      case "press":
        if (element !== null && focused() !== control) control.focus();
        return { next: "keys" };
      case "scroll":
        if (element !== null) element.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
        else scrollBox(action.by_px).scrollBy({ top: action.by_px, behavior: "instant" });
        return { next: "none" };
    }
  }

  /** Two animation frames without a change of the tree, or 100 ms. */
  function settled() {
    return new Promise((resolve) => {
      let changes = 0;
      let quiet = 0;
      const observer = new MutationObserver(() => changes++);
      observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      const done = () => { observer.disconnect(); resolve(); };
      setTimeout(done, SETTLE_MS);
      const frame = (seen) => {
        quiet = seen === changes ? quiet + 1 : 0;
        if (quiet > 1) done();
        else requestAnimationFrame(() => frame(changes));
      };
      requestAnimationFrame(() => frame(changes));
    });
  }

  /** What became of the action, for a page that is still the same document. */
  function verdict(element, action) {
    const missed = armed?.verdict === "missed" ? (isFirst ? "missed" : "missed_late") : null;
    armed = null;
    if (missed !== null) return missed;
    const control = element?.isConnected ? standsFor(element) ?? element : null;
    if (control !== null && action?.do === "check" && isOn(control) !== action.on) return "not_taken";
    if (control !== null && action?.do === "select") {
      const options = chosen(control, action.options);
      if ([...control.selectedOptions].some((option) => !options.includes(option))) return "not_taken";
      if (options.some((option) => !option?.selected)) return "not_taken";
    }
    return "taken";
  }

  /** Settle, judge, observe: one round trip. */
  async function finish(element, action) {
    await settled();
    return [verdict(element, action), ...observe()];
  }

  /** A point of a frame's document in the document around it; `obstacle` when a press there would not reach it. */
  function through(frame, x, y) {
    if (!frame.isConnected || !isShown(frame)) return { obstacle: "hidden" };
    const place = () => { const [left, top] = originOf(frame); return { x: left + x, y: top + y }; };
    const isIn = (at) => at.x >= 0 && at.y >= 0 && at.x < innerWidth && at.y < innerHeight;
    let at = place();
    if (!isIn(at)) {
      frame.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      at = place();
      if (!isIn(at)) {
        scrollBy({ left: at.x - innerWidth / 2, top: at.y - innerHeight / 2, behavior: "instant" });
        at = place();
      }
    }
    if (!isIn(at)) return { obstacle: "hidden" };
    return hitAt(at.x, at.y) === frame ? at : { obstacle: "covered" };
  }

  /** Settle and judge, for a document that is only a part of its page. */
  async function settle(element, action) {
    await settled();
    return [verdict(element, action), document];
  }

  const which = () => ["", document];
  return { aim, begin: (...given) => JSON.stringify(begin(...given)), finish, settle,
    through: (...given) => JSON.stringify(through(...given)), which };
})();
