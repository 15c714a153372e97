export function Brand({ size = 28 }: { readonly size?: number }) {
  return (
    <svg className="brand" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" />
      <path d="M9 25V14.5a7 7 0 0 1 14 0V25M16 17v5" />
      <circle cx="16" cy="15.2" r="2.2" />
    </svg>
  )
}
