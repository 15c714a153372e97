/** What is known of bytes after a scan, as receipts and custody events say it. */
export type ScanOutcome =
  | { readonly result: 'not_configured' }
  | {
      /** `limits_exceeded`: more than the scanner looks at. Never the same as clean. */
      readonly result: 'clean' | 'limits_exceeded'
      /** The scanner and its version, as it says. */
      readonly scanner: string
    }
  | { readonly result: 'infected'; readonly malware: string; readonly scanner: string }

/** Looks at bytes while they arrive. */
export interface Scanner {
  /** Begins a scan of bytes to come. It ends with `finish` or `abandon`. Rejects with ScannerAway. */
  begin(): Promise<Scan>
}

export interface Scan {
  /** Resolves when the scanner has taken the bytes. Rejects with ScannerAway. */
  write(chunk: Uint8Array): Promise<void>
  /** What the scanner makes of all bytes together. Rejects with ScannerAway: no answer is never taken for a good one. */
  finish(): Promise<ScanOutcome>
  /** Harmless when repeated and after `finish`. */
  abandon(): void
}

/** The scanner gave no answer that can be relied on; the cause says why, for the log. */
export class ScannerAway extends Error {}

/** Where no scanner is configured. */
export const noScanner: Scanner = {
  begin: async () => ({
    write: async () => undefined,
    finish: async () => ({ result: 'not_configured' }),
    abandon: () => undefined,
  }),
}
