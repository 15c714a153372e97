// Before anything is painted, so that nobody who has chosen dark sees a flash of light. The choice is all that is stored.
{
  const chosen = localStorage.getItem('postern-theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
}
