import type { ReactNode } from 'react'

export type Tone = 'neutral' | 'success' | 'warning' | 'danger' | 'info'

export function Badge({ tone, children, hasDot = false }: { tone: Tone; children: ReactNode; hasDot?: boolean }) {
  return (
    <span className={`badge badge-${tone}`}>
      {hasDot ? <span className="badge-dot" aria-hidden="true" /> : undefined}
      {children}
    </span>
  )
}
