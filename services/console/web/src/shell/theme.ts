import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'

const storageKey = 'postern-theme'
const listeners = new Set<() => void>()

function getChosenTheme(): Theme {
  const { theme } = document.documentElement.dataset
  return theme === 'light' || theme === 'dark' ? theme : 'system'
}

export function useTheme(): readonly [Theme, (theme: Theme) => void] {
  const theme = useSyncExternalStore((listener) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }, getChosenTheme)
  return [theme, chooseTheme]
}

function chooseTheme(theme: Theme): void {
  if (theme === 'system') {
    delete document.documentElement.dataset['theme']
    localStorage.removeItem(storageKey)
  } else {
    document.documentElement.dataset['theme'] = theme
    localStorage.setItem(storageKey, theme)
  }
  for (const listener of listeners) listener()
}
