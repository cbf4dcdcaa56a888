// What a document shows, computed in an isolated world of its own: the page sees none of these names and
// cannot replace the built-ins used here. Named form controls and images shadow the properties of `form` and
// `document` in every world, hence the getters taken from the prototypes.
globalThis.lessor ??= (() => {
  "use strict";
  const TEXT_BYTES_MAX = 256 << 10;
  const ELEMENTS_MAX = 256;
  const NAME_BYTES_MAX = 1 << 10;
  const VALUE_BYTES_MAX = 256;
  const ATTRIBUTE_CHARS_MAX = 2 << 20; // of all listed elements: the protocol returns them whether wanted or not
  const READ_MS_MAX = 1500;
  const CHUNK_NODES_MAX = 300000;
  const CONTROLS_MAX = 1000;
  const FRAMES_MAX = 32;
  const CLOSED_MAX = 16;
  const HOSTS = /-|^(article|aside|blockquote|div|footer|h[1-6]|header|main|nav|p|section|span)$/;

  const INTERACTIVE = [
    "a[href]", "button", "input:not([type=hidden])", "select", "textarea", "summary", "label",
    "[contenteditable='']", "[contenteditable=true]", "[contenteditable=plaintext-only]",
    "[onclick]", "[tabindex]:not([tabindex^='-'])",
    ...["button", "link", "checkbox", "radio", "switch", "tab", "menuitem", "menuitemcheckbox", "menuitemradio",
      "option", "combobox", "textbox", "searchbox", "slider", "spinbutton", "treeitem"].map((role) => `[role=${role}]`),
  ].join(",");
  const DIALOG = "dialog,[role=dialog],[role=alertdialog]";
  const GROUP = "tr,[role=row],li,[role=listitem],fieldset,[role=group],[role=radiogroup],article,[role=article]";
  const INPUT_ROLES = {
    button: "button", submit: "button", reset: "button", image: "button", checkbox: "checkbox", radio: "radio",
    range: "slider", number: "spinbutton", search: "searchbox", file: "file", color: "color", date: "date",
    time: "time", month: "datetime", week: "datetime", "datetime-local": "datetime",
  };
  const LOCAL_ROLES = {
    a: "link", button: "button", summary: "button", textarea: "textbox", option: "option", h1: "heading", h2: "heading",
    h3: "heading", h4: "heading", h5: "heading", h6: "heading", p: "paragraph", img: "image", li: "listitem",
    nav: "navigation", article: "article", main: "main", aside: "complementary", figure: "figure", dialog: "dialog",
    table: "table", tr: "row", td: "cell", th: "columnheader", ul: "list", ol: "list", fieldset: "group",
    details: "group", progress: "progressbar", meter: "meter", output: "status", iframe: "iframe",
  };
  const NAMED_ONLY = { section: "region", form: "form" }; // landmarks when somebody named them
  const ROLES = new Set(("alert alertdialog application article banner blockquote button caption cell checkbox code"
    + " columnheader combobox complementary contentinfo definition deletion dialog directory document emphasis feed"
    + " figure form generic grid gridcell group heading img image insertion link list listbox listitem log main marquee"
    + " math menu menubar menuitem menuitemcheckbox menuitemradio meter navigation note option paragraph progressbar"
    + " radio radiogroup region row rowgroup rowheader scrollbar search searchbox separator slider spinbutton status"
    + " strong subscript superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree"
    + " treegrid treeitem").split(" "));
  const BY_CONTENT = new Set(("button cell checkbox columnheader gridcell heading link menuitem menuitemcheckbox"
    + " menuitemradio option radio rowheader switch tab tooltip treeitem generic label").split(" "));
  const BLOCK = /^(block|inline-block|inline-flex|flex|grid|list-item|table|table-row|table-cell|flow-root)$/;
  const NAME_DEPTH_MAX = 32;
  const NAME_CHARS_MAX = 8192;
  const SECRET_TOKENS = new Set(["current-password", "new-password", "one-time-code"]);
  const SECRET_NAMES = /passw|passcode|passwd|one.?time|(^|[^a-z])(otp|totp|mfa|pwd)([^a-z]|$)/i;
  const PRIVATE_TOKENS = /^cc-(number|csc|exp)/;

  const getter = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (of) => get.call(of);
  };
  const bodyOf = getter(Document, "body");
  const titleOf = getter(Document, "title");
  const controlsOf = getter(HTMLFormElement, "elements");
  const all = (root, selector) =>
    (root === document ? Document : DocumentFragment).prototype.querySelectorAll.call(root, selector);
  const secretOnce = new WeakSet(); // a field that was a password stays one when the page reveals it

  const encoder = new TextEncoder();
  const jsonBytes = (text) => encoder.encode(JSON.stringify(text)).length - 2;
  const squeeze = (text) => text.replace(/\s+/g, " ").trim();

  /** The longest prefix whose JSON encoding has at most that many bytes. */
  function cut(text, bytesMax) {
    let kept = text.slice(0, bytesMax).toWellFormed();
    if (jsonBytes(kept) <= bytesMax) return kept;
    let low = 0;
    let high = kept.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (jsonBytes(kept.slice(0, middle)) <= bytesMax) low = middle;
      else high = middle;
    }
    return kept.slice(0, low).toWellFormed();
  }

  /** 64 bits, incremental: enough to notice a change, not meant against someone who forges one. */
  class Digest {
    first = 0x811c9dc5;
    second = 0x9747b28c;
    add(text) {
      let { first, second } = this;
      for (let i = 0; i < text.length; i++) {
        const unit = text.charCodeAt(i);
        first = Math.imul(first ^ unit, 0x01000193);
        second = Math.imul(second ^ unit, 0x85ebca6b);
        second = (second << 13) | (second >>> 19);
      }
      this.first = Math.imul(first ^ 0x1f, 0x01000193); // parts do not run into each other
      this.second = Math.imul(second ^ 0x1f, 0xc2b2ae35);
      return this;
    }
    hex() {
      return [this.first, this.second].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
    }
  }
  const digestOf = (...parts) => parts.reduce((digest, part) => digest.add(part), new Digest()).hex();

  function boxOf(element) {
    let best = null;
    const area = (box) => box.width * box.height;
    for (const box of element.getClientRects()) if (area(box) > 0 && (!best || area(box) > area(best))) best = box;
    if (best === null) for (const child of element.children) {
      const box = child.getBoundingClientRect();
      if (area(box) > 0 && (!best || area(box) > area(best))) best = box;
    }
    return best;
  }

  const isChoice = (element) => element.localName === "input" && /^(checkbox|radio|file)$/.test(element.type);
  // Styled check boxes lie transparent over their picture: those are what a person hits.
  function isShown(element) {
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: !isChoice(element) })) return false;
    if (element.closest("[inert]")) return false;
    const whole = element.getBoundingClientRect();
    const box = whole.width * whole.height > 0 ? whole : boxOf(element);
    return box !== null && box.right + scrollX > 0 && box.bottom + scrollY > 0;
  }

  /** A label stands in for its check box, radio button or file field where that is hidden behind it. */
  const standsFor = (element) => {
    const control = element.localName === "label" ? element.control : null;
    return control && isChoice(control) && !isShown(control) ? control : null;
  };
  const isDisabled = (element) =>
    element.matches(":disabled") || element.closest("[aria-disabled=true],[inert]") !== null;

  const tokensOf = (element) => (element.getAttribute("autocomplete") ?? "").toLowerCase().split(/\s+/);
  function isSecret(element) {
    if (element.localName !== "input") return false;
    if (element.type === "password" || tokensOf(element).some((token) => SECRET_TOKENS.has(token)))
      secretOnce.add(element);
    const named = /^(text|tel|number)$/.test(element.type) && SECRET_NAMES.test(`${element.name} ${element.id}`);
    return named || secretOnce.has(element);
  }

  function roleOf(element) {
    for (const given of (element.getAttribute("role") ?? "").toLowerCase().split(/\s+/).slice(0, 8))
      if (ROLES.has(given)) return given === "img" ? "image" : given;
    const isNamed = element.hasAttribute("aria-label") || element.hasAttribute("aria-labelledby");
    switch (element.localName) {
      case "select": return element.multiple || element.size > 1 ? "listbox" : "combobox";
      case "input": return INPUT_ROLES[element.type] ?? (element.list ? "combobox" : "textbox");
      case "section": case "form": return isNamed ? NAMED_ONLY[element.localName] : "generic";
      default: return LOCAL_ROLES[element.localName] ?? (element.isContentEditable ? "textbox" : "generic");
    }
  }

  const attribute = (element, name) => squeeze(element.getAttribute(name) ?? "");
  const isButtonInput = (element) => element.localName === "input" && INPUT_ROLES[element.type] === "button";

  function valueInName(element) {
    if (element.localName === "select") return squeeze([...element.selectedOptions].map((one) => one.label).join(" "));
    if (element.localName === "textarea") return squeeze(element.value);
    return isSecret(element) || isChoice(element) ? "" : squeeze(element.value);
  }

  /** What an element's content says, as it is read out: text, pictures' names and labels, nothing that is hidden.
   * `budget` bounds the whole walk; `from` is the field whose label is read and does not name itself. */
  function contentOf(element, budget, from = null, depth = 0) {
    let words = "";
    for (const node of element.shadowRoot?.childNodes ?? element.childNodes) {
      if (budget.chars <= 0 || depth > NAME_DEPTH_MAX) break;
      if (node.nodeType === Node.TEXT_NODE) {
        const data = node.data.slice(0, budget.chars);
        budget.chars -= data.length;
        words += data;
      } else if (node.nodeType === Node.ELEMENT_NODE && node !== from) words += inName(node, budget, from, depth + 1);
    }
    return words;
  }

  function inName(element, budget, from, depth) {
    if (/^(script|style|noscript|template)$/.test(element.localName)) return "";
    if (element.localName === "br") return " ";
    if (element.getAttribute("aria-hidden") === "true") return "";
    budget.chars -= 1;
    const style = getComputedStyle(element);
    if (style.display === "none" || style.visibility !== "visible") return "";
    const gap = BLOCK.test(style.display) ? " " : "";
    const said = attribute(element, "aria-label");
    if (said !== "") return `${gap}${said}${gap}`;
    if (element.localName === "img" || isButtonInput(element))
      return ` ${attribute(element, "alt") || attribute(element, "title") || (element.value ?? "")} `;
    if (/^(input|textarea|select)$/.test(element.localName)) return ` ${valueInName(element)} `;
    if (element.namespaceURI === "http://www.w3.org/2000/svg") {
      const title = element.querySelector(":scope > title")?.textContent ?? "";
      return ` ${title} `;
    }
    return `${gap}${contentOf(element, budget, from, depth)}${gap}`;
  }

  const textIn = (element, from = null) => squeeze(contentOf(element, { chars: NAME_CHARS_MAX }, from));

  /** One of `aria-labelledby`: also what is hidden there names. */
  function referred(element) {
    const said = attribute(element, "aria-label");
    if (said !== "") return said;
    if (/^(input|textarea|select)$/.test(element.localName)) return valueInName(element);
    if (element.localName === "img") return attribute(element, "alt");
    return element.checkVisibility() ? textIn(element) : squeeze((element.textContent ?? "").slice(0, NAME_CHARS_MAX));
  }

  function nameOf(element) {
    const root = element.getRootNode();
    const by = (element.getAttribute("aria-labelledby") ?? "").trim().split(/\s+/).slice(0, 8)
      .map((id) => id && root.querySelector?.(`#${CSS.escape(id)}`)).filter(Boolean).map(referred).join(" ");
    return cut(squeeze(by) || attribute(element, "aria-label") || nativeName(element) || attribute(element, "title")
      || attribute(element, "placeholder") || attribute(element, "aria-placeholder"), NAME_BYTES_MAX);
  }

  function nativeName(element) {
    if (isButtonInput(element)) {
      const usual = { submit: "Submit", reset: "Reset", image: "Submit" }[element.type] ?? "";
      if (element.type === "image") return attribute(element, "alt") || attribute(element, "value") || (attribute(element, "title") ? "" : usual);
      return squeeze(element.value) || (attribute(element, "title") && element.type === "button" ? "" : usual);
    }
    if (/^(input|select|textarea)$/.test(element.localName)) {
      const labels = [...(element.labels ?? [])].slice(0, 4).filter((label) => label.checkVisibility());
      return squeeze(labels.map((label) => attribute(label, "aria-label") || textIn(label, element)).join(" "));
    }
    if (element.localName === "img") return attribute(element, "alt");
    const role = element.localName === "label" ? "label" : roleOf(element);
    return BY_CONTENT.has(role) && !element.isContentEditable ? textIn(element) : "";
  }

  function stateOf(element) {
    const state = [];
    const is = (name) => element.getAttribute(`aria-${name}`);
    const say = (word, holds) => holds && state.push(word);
    say("disabled", isDisabled(element));
    say("checked", isChoice(element) ? element.checked : is("checked") === "true");
    say("mixed", element.indeterminate === true || is("checked") === "mixed");
    say("pressed", is("pressed") === "true");
    say("selected", is("selected") === "true");
    say("expanded", is("expanded") === "true" || (element.localName === "summary" && element.parentElement?.open === true));
    say("collapsed", is("expanded") === "false");
    say("readonly", element.readOnly === true || is("readonly") === "true");
    say("required", element.required === true || is("required") === "true");
    say("invalid", is("invalid") === "true");
    say("filled", isSecret(element) && element.value !== "");
    return state;
  }

  function valueOf(element) {
    switch (element.localName) {
      case "select": return [...element.selectedOptions].slice(0, 64).map((option) => option.label).join(", ");
      case "textarea": return element.value;
      case "input":
        if (isSecret(element) || tokensOf(element).some((token) => PRIVATE_TOKENS.test(token))) return null;
        return INPUT_ROLES[element.type] === "button" || isChoice(element) ? null : element.value;
      default: return element.isContentEditable ? element.innerText : null;
    }
  }

  /** What a control contributes to the fingerprint of its form: of a secret only whether there is one. */
  function weightOf(control) {
    if (isSecret(control)) return control.value === "" ? "" : "filled";
    if (isChoice(control)) return control.type === "file" ? `${control.files.length}` : `${control.checked}`;
    if (control.localName === "select") return [...control.selectedOptions].map((option) => option.value).join("\n");
    return control.localName === "fieldset" ? "" : `${control.value ?? ""}`;
  }

  /** Fingerprints of one reading: texts of rows and values of forms are computed once. */
  class Reading {
    texts = new Map();
    forms = new Map();
    around(element, selector) {
      const group = element.closest(selector);
      if (group === null) return "";
      if (!this.texts.has(group)) this.texts.set(group, digestOf(group.innerText ?? group.textContent));
      return this.texts.get(group);
    }
    form(element) {
      const form = element.form ?? element.closest("form");
      if (form === null) return valueOf(element) ?? "";
      if (!this.forms.has(form)) {
        const controls = [...controlsOf(form)].slice(0, CONTROLS_MAX);
        this.forms.set(form, digestOf(...controls.map((control) => `${control.name}=${weightOf(control)}`)));
      }
      return this.forms.get(form);
    }
    describe(element) {
      const control = standsFor(element) ?? element;
      const [role, name, state] = [roleOf(control), nameOf(control), stateOf(control)];
      const surroundings = [this.form(control), this.around(element, DIALOG), this.around(element, GROUP)];
      return { role, name, state, fingerprint: digestOf(role, name, state.join(" "), ...surroundings) };
    }
  }

  class Text {
    parts = [];
    kept = 0;
    bytes = 0;
    digest = new Digest();
    constructor(endsAt) { this.endsAt = endsAt; }
    isLate() { return performance.now() > this.endsAt; }
    take(text) {
      text = text.replace(/[ \t\u00a0]+/g, " ").replace(/\s*\n\s*\n\s*/g, "\n\n").trim();
      if (text === "") return;
      const gap = this.bytes > 0 ? 1 : 0;
      this.bytes += gap + encoder.encode(text).length;
      this.digest.add(text);
      if (this.kept <= TEXT_BYTES_MAX) this.parts.push(text.slice(0, TEXT_BYTES_MAX + 1));
      this.kept += gap + text.length;
    }
    /** innerText is fast, but cannot be stopped: large trees are read in pieces. False when time ran out. */
    read(node) {
      if (this.isLate()) return false;
      if (node.nodeType === Node.TEXT_NODE) {
        this.take(node.data);
        return true;
      }
      if (node.nodeType === Node.ELEMENT_NODE) {
        const isBox = node.checkVisibility();
        if (!isBox && getComputedStyle(node).display !== "contents") return true;
        if (isBox && node.getElementsByTagName("*").length < CHUNK_NODES_MAX) {
          this.take(node.innerText ?? "");
          return true;
        }
      }
      for (const child of node.childNodes)
        if ((child.nodeType === Node.ELEMENT_NODE || child.nodeType === Node.TEXT_NODE) && !this.read(child)) return false;
      return true;
    }
  }

  /** Every open tree of the document; closed shadow roots cannot be seen from here. */
  function treesOf(isLate) {
    const trees = [document];
    for (let at = 0; at < trees.length && !isLate(); at++)
      for (const element of all(trees[at], "*")) if (element.shadowRoot) trees.push(element.shadowRoot);
    return trees;
  }

  /** Where the content of a frame's element begins, in the viewport of the document around it. */
  function originOf(frame) {
    const [box, style] = [frame.getBoundingClientRect(), getComputedStyle(frame)];
    return [box.left + frame.clientLeft + parseFloat(style.paddingLeft),
      box.top + frame.clientTop + parseFloat(style.paddingTop)];
  }

  /** Elements that show something and hold nothing that can be seen from here: a closed shadow root may be why. */
  function closedIn(trees) {
    const found = [];
    const endsAt = performance.now() + READ_MS_MAX / 10;
    for (const tree of trees)
      for (const element of all(tree, "*")) {
        if (found.length >= CLOSED_MAX || performance.now() > endsAt) return found;
        if (element.firstElementChild !== null && !element.localName.includes("-")) continue;
        if (element.shadowRoot !== null || !HOSTS.test(element.localName)) continue;
        if (!element.localName.includes("-") && (element.firstChild !== null || element.offsetWidth < 8)) continue;
        if (element.attributes.length < 32 && element.offsetHeight >= 8 && isShown(element)) found.push(element);
      }
    return found;
  }

  function read() {
    const text = new Text(performance.now() + READ_MS_MAX);
    const reading = new Reading();
    const trees = treesOf(() => text.isLate());
    let isCut = false;
    for (const tree of trees) {
      const top = tree === document ? bodyOf(document) : tree;
      if (top !== null && !text.read(top)) isCut = true;
    }
    const [nodes, elements] = [[], []];
    let [total, attributeChars] = [0, 0];
    const endsAt = performance.now() + READ_MS_MAX;
    search: for (const tree of trees)
      for (const element of all(tree, INTERACTIVE)) {
        if (performance.now() > endsAt) { isCut = true; break search; }
        if (element.localName === "form" || (element.localName === "label" && standsFor(element) === null)) continue;
        if (!isShown(element)) continue;
        total++;
        if (nodes.length >= ELEMENTS_MAX) continue;
        let chars = 0;
        for (const attribute of element.attributes) chars += attribute.name.length + attribute.value.length;
        if (attributeChars + chars > ATTRIBUTE_CHARS_MAX) continue;
        attributeChars += chars;
        const { role, name, state, fingerprint } = reading.describe(element);
        const value = valueOf(standsFor(element) ?? element);
        nodes.push(element);
        const box = boxOf(element);
        const at = box && [box.left, box.top, box.width, box.height].map(Math.round);
        elements.push([role, name, state, value === null ? null : cut(value, VALUE_BYTES_MAX), fingerprint, at]);
      }
    const frames = [];
    for (const tree of trees)
      for (const frame of all(tree, "iframe")) {
        attributeChars += (frame.getAttribute("srcdoc") ?? "").length;
        if (frames.length >= FRAMES_MAX || attributeChars > ATTRIBUTE_CHARS_MAX) isCut = true;
        else if (isShown(frame)) frames.push(frame);
      }
    const whole = text.parts.join("\n");
    const shown = cut(whole, TEXT_BYTES_MAX);
    const [url, title] = [location.href, squeeze(titleOf(document))];
    const digest = text.digest.add(url).add(title);
    for (const [, , , value, fingerprint] of elements) digest.add(value ?? "").add(fingerprint);
    const status = performance.getEntriesByType("navigation")[0]?.responseStatus || null;
    const view = {
      status, url: cut(url, 8192), title: cut(title, NAME_BYTES_MAX), text: shown, text_total: text.bytes, elements, total,
      frames: frames.map(originOf),
      truncated: isCut || text.bytes > encoder.encode(shown).length || total > elements.length, digest: digest.hex(),
    };
    return { view, nodes: [...nodes, ...frames], trees };
  }

  /** One reading as the protocol takes it: the view as text, the document, then the elements' nodes. */
  function observe() {
    const { view, nodes } = read();
    return [JSON.stringify(view), document, ...nodes];
  }

  /** What may be closed, for whoever can look inside: one answer with the document first. */
  const suspects = () => ["", document, ...closedIn(treesOf(() => false))];

  return { Reading, boxOf, cut, isChoice, isDisabled, isSecret, isShown, observe, originOf, read, standsFor, suspects };
})();
