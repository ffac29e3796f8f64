// Text whose contrast is less than WCAG 2 asks for: 4.5, and 3 where it is large. Disabled controls are left out.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, under) => {
    const share = top[3] / 255;
    return [...[0, 1, 2].map((i) => top[i] * share + under[i] * (1 - share)), 255];
  };
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 255]);
  };
  const channel = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const left_out = "[disabled], [aria-disabled=true], svg, canvas, .visually-hidden, .skip, noscript";
  const faint = new Set();
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest(left_out) || !element.checkVisibility()) continue;
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const style = getComputedStyle(element);
    const under = ground(element);
    const [high, low] = [luminance(over(rgba(style.color), under)), luminance(under)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (large ? 3 : 4.5)) faint.add(`${element.className} "${element.textContent.slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return [...faint];
}
