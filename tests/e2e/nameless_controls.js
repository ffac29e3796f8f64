// Controls that a screen reader could not name.
() => [...document.querySelectorAll("button, a[href], input, select, textarea")]
  .filter((e) => e.checkVisibility())
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
  .map((e) => e.outerHTML.slice(0, 120))
