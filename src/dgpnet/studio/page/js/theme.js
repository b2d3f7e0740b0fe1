// Light, dark or as the system says. A plain script in the head, so that no page flashes in the wrong colours.
(() => {
  let theme = "system";
  try {
    theme = localStorage.getItem("dgpnet-theme") ?? "system";
  } catch {
    // Storage is forbidden: as the system says.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
