/** The exit codes are part of the interface and never change their meaning. */
export const exitCodes = {
  ok: 0,
  unexpected: 1,
  usage: 2,
  /** A 4xx, a wrong log, or a run without success. */
  refused: 3,
  notFound: 4,
  /** The server is unavailable, or the outcome is unknown. */
  unavailable: 5,
} as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

export const exitCodeHelp = `
Exit codes:
  0  done
  1  something unexpected (keys scan: there is a key)
  2  the command line or a setting is wrong; no request was sent
  3  rejected by the server; nothing has changed (verify-log: the log differs from what was signed;
     connectors: the run failed, was cancelled, was applied in part, or needs approval)
  4  the tenant or key does not exist
  5  the server is unavailable, or the outcome is unknown: the message says what to do

Errors are one line on standard error; with --json a problem document (RFC 9457) on standard error.`
