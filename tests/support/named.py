"""Elements in the many ways in which pages name them; what each is called, the browser's accessibility tree says."""

_BUTTONS = """
<button>Save</button>
<button aria-label="Close">x</button>
<button aria-label="  Spaced   out  ">x</button>
<button title="Tip">Text wins</button>
<button title="Only the tip"></button>
<button><img alt="Picture"></button>
<button><svg role=img aria-label="Drawn"></svg></button>
<button><svg><title>Titled</title><rect width=5 height=5 /></svg></button>
<button>Two <b>parts</b></button>
<button>Broken<br>line</button>
<button><span>A</span><span>B</span></button>
<button><div>Block</div><div>Block</div></button>
<button>Shown <span hidden>not shown</span></button>
<button>Shown <span style="display:none">not displayed</span></button>
<button>Shown <span style="visibility:hidden">not visible</span></button>
<button>Read <span aria-hidden=true>not read</span></button>
<button>Icon <i class=icon></i> after</button>
<button aria-labelledby=b1>own</button><span id=b1>From elsewhere</span>
<button aria-labelledby="b2 b3">own</button><span id=b2>First</span><span id=b3>Second</span>
<button id=b4 aria-label=Delete aria-labelledby="b4 b5">x</button><span id=b5>File.txt</span>
<button aria-labelledby=b6>own</button><span id=b6 hidden>From the hidden</span>
<button aria-labelledby=missing>Falls back</button>
<button aria-label="">Empty label</button>
<button aria-describedby=b7>Described</button><span id=b7>by this</span>
<button disabled>Disabled</button>
<button aria-pressed=true>Toggle</button>
<button aria-expanded=false>Menu</button>
<button aria-haspopup=menu>Popup</button>
<button type=submit>Go</button>
<button>&nbsp;Hard&nbsp;space&nbsp;</button>
<button><img alt=""> Decorated</button>
<button><img alt="Left"> Mixed <img alt="Right"></button>
<button><input type=hidden value=x>Hidden field</button>
<button><span aria-label="Labelled">ignored</span></button>
<button><span role=img aria-label="Star"></span> Favourite</button>
<div role=button tabindex=0>Made up</div>
<div role=button tabindex=0 aria-label="Made up, named">x</div>
<div role=button tabindex=0><p>Para</p><p>Graph</p></div>
<span role="bogus button" tabindex=0>Known role</span>
<span role=BUTTON tabindex=0>Upper case</span>
<input type=submit>
<input type=submit value="Send it">
<input type=reset>
<input type=button value="Plain">
<input type=button value="" title="Titled">
<input type=image alt="Search" src="data:,">
<input type=image title="By title" src="data:,">
<input type=image value="By value" src="data:,">
<input type=image src="data:,">
<input type=submit value="Own" aria-label="Labelled">
"""
_LINKS = """
<a href=#1>Home</a>
<a href=#2><img alt="Logo"></a>
<a href=#3 aria-label="Read more about it">more</a>
<a href=#4 title="Tip">Text</a>
<a href=#5 title="Only tip"><img alt=""></a>
<a href=#6><span>Part</span> one</a>
<a href=#7>Line<br>two</a>
<a href=#8><h3>Heading</h3><p>Teaser</p></a>
<a href=#9 aria-labelledby=l1>x</a><b id=l1>Bold</b>
<a href=#10 role=button>Looks like one</a>
<a href=#11 role=tab>Tab</a>
<a href=#12 role=menuitem>Item</a>
<a href=#13>A <em>very</em> <strong>long</strong> one</a>
<a href=#14><svg aria-label="Chart" role=img></svg></a>
<a href=#15>Price: <s>10</s> 8</a>
<a href=#16><figure><img alt="Cat"><figcaption>A cat</figcaption></figure></a>
<a href=#17 aria-current=page>Here</a>
<span role=link tabindex=0>Scripted</span>
<a href=#18><abbr title="Hypertext">HTML</abbr></a>
<a href=#19><code>x = 1</code></a>
"""
_FIELDS = """
<label>Wrapped <input></label>
<label for=f1>For</label><input id=f1>
<label for=f2>One</label><label for=f2>Two</label><input id=f2>
<input aria-label="Labelled">
<input placeholder="Held">
<input title="Titled">
<input title="Titled" placeholder="Held">
<input aria-labelledby=f3><span id=f3>Beside</span>
<label>Outer <input aria-label="Inner"></label>
<label><input> After</label>
<label>Before <input> after</label>
<label><b>Bold</b> <input></label>
<label hidden for=f4>Hidden label</label><input id=f4>
<label>Mail <input type=email></label>
<label>Phone <input type=tel></label>
<label>Web <input type=url></label>
<label>Find <input type=search></label>
<label>Count <input type=number value=3></label>
<label>Volume <input type=range></label>
<label>Pass <input type=password></label>
<label>List <input list=dl></label><datalist id=dl><option>a</datalist>
<label>Day <input type=date></label>
<label>Hour <input type=time></label>
<label>Both <input type=datetime-local></label>
<label>Month <input type=month></label>
<label>Week <input type=week></label>
<label>Colour <input type=color></label>
<label>Upload <input type=file></label>
<label>Note <textarea>typed</textarea></label>
<textarea placeholder="Comment"></textarea>
<textarea aria-label="Labelled area"></textarea>
<div contenteditable=true aria-label="Body">draft</div>
<div contenteditable=true role=textbox aria-label="Rich">draft</div>
<div contenteditable=true role=textbox aria-multiline=true aria-labelledby=f5></div><span id=f5>Letter</span>
<div role=searchbox tabindex=0 aria-label="Made search"></div>
<div role=textbox tabindex=0 contenteditable aria-placeholder="Held here"></div>
<div role=spinbutton tabindex=0 aria-label=Amount aria-valuenow=2></div>
<div role=slider tabindex=0 aria-label=Level aria-valuenow=2></div>
<label>Readonly <input readonly value=x></label>
<label>Required <input required></label>
<label>With <span aria-hidden=true>*</span> star <input></label>
<label>Select inside <select><option>a<option>b</select> text <input></label>
<fieldset><legend>Group</legend><label>In group <input></label></fieldset>
<table><tr><td>Cell<td><input aria-label="In cell"></table>
<input type=text value="only a value">
<label>Nested <span>deep <i>text</i></span><input></label>
<label for=f6>Punctuation: (a, b)</label><input id=f6>
<label for=f7>   white
   space   </label><input id=f7>
"""
_CHOICES = """
<label><input type=checkbox> Agree</label>
<label><input type=checkbox checked> Checked</label>
<input type=checkbox id=c1><label for=c1>Beside</label>
<input type=checkbox aria-label="Labelled">
<input type=checkbox title="Titled">
<label><input type=radio name=r> One</label>
<label><input type=radio name=r checked> Two</label>
<input type=radio aria-labelledby=c2><em id=c2>Three</em>
<input type=checkbox role=switch aria-label="Switched">
<div role=checkbox tabindex=0 aria-checked=true>Box</div>
<div role=checkbox tabindex=0 aria-checked=mixed aria-label="Mixed">x</div>
<div role=radio tabindex=0 aria-checked=false>Round</div>
<div role=switch tabindex=0 aria-checked=true>On</div>
<button role=switch aria-checked=false>Off</button>
<button role=checkbox aria-checked=false>Button box</button>
<label>Size <select><option>S<option>L</select></label>
<select aria-label="Labelled"><option>a</select>
<select title="Titled"><option>a</select>
<label>Many <select multiple><option>a<option>b</select></label>
<label>Tall <select size=3><option>a<option>b</select></label>
<select aria-labelledby=c3><option>a</select><span id=c3>Beside</span>
<label for=c4>Country</label><select id=c4><option>NL<option>DE</select>
<div role=combobox tabindex=0 aria-label="Made up" aria-expanded=false>chosen</div>
<input role=combobox aria-label="Typed in">
<button role=combobox aria-expanded=false aria-label="Pressed">x</button>
<div role=listbox tabindex=0 aria-label="Fruits"><div role=option>Apple</div>
 <div role=option aria-selected=true>Pear</div></div>
<div role=menu><div role=menuitem tabindex=0>Open</div>
 <div role=menuitemcheckbox tabindex=0 aria-checked=true>Tick</div>
<div role=menuitemradio tabindex=0 aria-checked=false>Pick</div></div>
<div role=tablist><div role=tab tabindex=0>General</div><div role=tab tabindex=0 aria-label="Second">2</div></div>
<div role=tree><div role=treeitem tabindex=0>Branch</div><div role=treeitem tabindex=0 aria-label="Leaf">x</div></div>
"""
_COMMON = """
<button class="btn btn-primary"><span class=icon aria-hidden=true>+</span> Add to cart</button>
<button><span>Sign</span> <span>in</span></button>
<button aria-label="Next page"><svg><path d=""/></svg></button>
<button><kbd>Ctrl</kbd>+<kbd>S</kbd></button>
<button>Remove <span class=sr>Blue shirt</span></button>
<button><small>from</small> 9.99</button>
<button><ul><li>One</li><li>Two</li></ul></button>
<button><p>First.</p> <p>Second.</p></button>
<button><span style="display:inline-block">In</span><span style="display:inline-block">line</span></button>
<button title="Settings"><svg aria-hidden=true><path d=""/></svg></button>
<button><img alt="Flag"> English</button>
<button>100&#37; &amp; more</button>
<a href=#c1>Orders <span class=badge>3</span></a>
<a href=#c2><time>12 May</time> - Invoice</a>
<a href=#c3>Terms &amp; conditions</a>
<a href=#c4><span aria-hidden=true>»</span> Next</a>
<a href=#c5><img alt="Product"> Product</a>
<a href=#c6 aria-label="Page 2">2</a>
<a href=#c7><span lang=nl>Winkel</span></a>
<a href=#c8><div>Card</div><div>Text</div></a>
<a href=#c9><u>Underlined</u></a>
<a href=#c10>jane@example.org</a>
<label>First name <input name=first autocomplete=given-name></label>
<label>Last name* <input name=last required></label>
<div><label for=d1>Street</label> <input id=d1></div>
<div><label for=d2>City <small>(optional)</small></label><input id=d2></div>
<label><span>Zip</span><span><input></span></label>
<label>Quantity <input type=number min=1 max=9 value=1></label>
<label>Coupon <input placeholder="ABC-123"></label>
<label>Message <textarea rows=3></textarea></label>
<label><input type=checkbox> I agree to the <a href=#d3>terms</a></label>
<label><input type=checkbox> <b>News</b> by mail</label>
<label><input type=radio name=pay> Card</label>
<label><input type=radio name=pay> Invoice <em>(30 days)</em></label>
<label for=d4>Delivery</label><select id=d4><option>Home<option>Shop</select>
<label>Sort by <select><option>Price<option>Name</select></label>
<input type=search aria-label="Search the shop" placeholder="Search">
<input type=submit value="Place order">
<table><tr><td>INV-1<td>10.00<td><button>Approve</button></table>
<table><tr><th>Pick<td><input type=checkbox aria-label="Pick INV-2"></table>
<fieldset><legend>Shipping</legend><label><input type=radio name=s> Express</label></fieldset>
<div role=dialog aria-label="Sure?"><button>Yes, delete</button></div>
<div role=toolbar><button aria-label=Bold><b>B</b></button></div>
<nav><a href=#d5>Catalogue</a></nav>
"""
_OTHERS = """
<details><summary>More</summary>hidden</details>
<details open><summary>Open <b>now</b></summary>shown</details>
<details><summary aria-label="Labelled">x</summary>hidden</details>
<div tabindex=0 aria-label="Named">x</div>
<div tabindex=0 role=group aria-label="Grouped">x</div>
<div onclick="1">Clicked</div>
<h2 tabindex=0>Heading</h2>
<p tabindex=0>Paragraph</p>
<section tabindex=0 aria-label="Part">x</section>
<img tabindex=0 alt="Photo">
<li tabindex=0>Item</li>
<td tabindex=0>Cell</td>
<nav tabindex=0 aria-label="Main">x</nav>
<div role=gridcell tabindex=0>Grid</div>
<div role=row tabindex=0>Row</div>
<div role=region tabindex=0 aria-label="Area">x</div>
<div role=img tabindex=0 aria-label="Drawing"></div>
<div role=progressbar tabindex=0 aria-label="Progress"></div>
<div role=heading aria-level=2 tabindex=0>Made heading</div>
<article tabindex=0>Story</article>
<form tabindex=0 aria-label="Form"><p>x</p></form>
<div role=alert tabindex=0>Alert</div>
<div role=application tabindex=0 aria-label="App">x</div>
<div role=scrollbar tabindex=0 aria-label="Scroll" aria-valuenow=1></div>
"""


_MADE_UP = ("button", "link", "checkbox", "radio", "switch", "tab", "menuitem", "menuitemcheckbox", "menuitemradio")
_FIELD_LIKE = ("textbox", "searchbox", "combobox", "slider", "spinbutton")


def _made_up() -> list[str]:
    """Every interactive role, named by its content where that names it, by a label, and from elsewhere."""
    found: list[str] = []
    for role in (*_MADE_UP, *_FIELD_LIKE):
        found.append(f"<div role={role} tabindex=0>The {role} <i>itself</i></div>")
        found.append(f"<div role={role} tabindex=0 aria-label='Labelled {role}'>x</div>")
        found.append(f"<div role={role} tabindex=0 aria-labelledby=m-{role}>x</div><p id=m-{role}>Other {role}</p>")
    return found


def snippets() -> list[str]:
    """One a line; a line that begins with white space or a closing part belongs to the one before."""
    found: list[str] = []
    for block in (_BUTTONS, _LINKS, _FIELDS, _CHOICES, _COMMON, _OTHERS):
        for line in block.strip().splitlines():
            if line.startswith((" ", "<div role=menuitemradio")):
                found[-1] += f"\n{line}"
            else:
                found.append(line)
    return found + _made_up()
