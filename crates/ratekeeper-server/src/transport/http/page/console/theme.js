"use strict";

// Light or dark. Not a module, and asked for before the page is drawn: a module would come after a flash of white.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem("ratekeeper.theme");
    } catch {
      return null; // The browser keeps nothing for this page.
    }
  };
  let choice = stored();
  if (choice !== "light" && choice !== "dark") choice = "system";

  const apply = () => {
    document.documentElement.dataset.theme = choice === "system" ? (dark.matches ? "dark" : "light") : choice;
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === choice));
    }
    document.dispatchEvent(new Event("themechange"));
  };

  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", (event) => {
      const chosen = event.target.dataset.themeChoice;
      if (!chosen) return;
      choice = chosen;
      try {
        if (choice === "system") localStorage.removeItem("ratekeeper.theme");
        else localStorage.setItem("ratekeeper.theme", choice);
      } catch {
        // Then it holds until the page is closed.
      }
      apply();
    });
  });
})();
