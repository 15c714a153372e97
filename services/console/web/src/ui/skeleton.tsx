import { OverdueReading } from './overdue.tsx'

export function Skeleton({ width = '100%' }: { readonly width?: string }) {
  return <span className="skeleton" style={{ width }} aria-hidden="true" />
}

export function PageSkeleton() {
  return (
    <div className="page" aria-busy="true">
      <span className="for-listeners" role="status">
        Loading
      </span>
      <header className="page-header">
        <div className="page-words skeleton-title">
          <Skeleton width="14rem" />
          <Skeleton width="22rem" />
        </div>
      </header>
      <OverdueReading />
      <div className="card skeleton-card">
        <Skeleton width="60%" />
        <Skeleton width="85%" />
        <Skeleton width="45%" />
      </div>
    </div>
  )
}
