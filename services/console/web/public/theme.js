// Runs before the first paint, so that a dark page does not flash light. The browser stores only this choice.
{
  const chosen = localStorage.getItem('postern-theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
}
