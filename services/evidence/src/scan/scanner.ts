/** The result of a scan, as in receipts and custody events. */
export type ScanOutcome =
  | { readonly result: 'not_configured' }
  | {
      /** `limits_exceeded`: not scanned completely, so not clean. */
      readonly result: 'clean' | 'limits_exceeded'
      /** The scanner and its version, as it says. */
      readonly scanner: string
    }
  | { readonly result: 'infected'; readonly malware: string; readonly scanner: string }

/** Looks at bytes while they arrive. */
export interface Scanner {
  /** Starts a scan, which ends with `finish` or `abandon`. Rejects with ScannerUnavailableError. */
  begin(): Promise<Scan>
}

export interface Scan {
  /** Resolves when the scanner has taken the bytes. Rejects with ScannerUnavailableError. */
  write(chunk: Uint8Array): Promise<void>
  /** Returns the result for all bytes. Rejects with ScannerUnavailableError, because a missing answer never means clean. */
  finish(): Promise<ScanOutcome>
  /** Harmless when repeated and after `finish`. */
  abandon(): void
}

/** The scanner gave no reliable answer. The cause is for the log. */
export class ScannerUnavailableError extends Error {}

/** Where no scanner is configured. */
export const noScanner: Scanner = {
  begin: async () => ({
    write: async () => undefined,
    finish: async () => ({ result: 'not_configured' }),
    abandon: () => undefined,
  }),
}
