// Before the first paint, so that a dark page never flashes white.
(() => {
  const chosen = localStorage.getItem("ctp.theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = localStorage.getItem("ctp.theme") ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new Event("themechange"));
  };
  document.documentElement.dataset.theme = chosen ?? (dark.matches ? "dark" : "light");
  dark.addEventListener("change", apply);
})();
