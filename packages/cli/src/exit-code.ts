/** The exit codes. They are part of the interface and never change their meaning. */
export const exitCodes = {
  ok: 0,
  /** A bug in the command, or an unexpected response. */
  unexpected: 1,
  /** The command line or a setting is wrong. No request was sent. */
  usage: 2,
  /** The server rejected the request (4xx), the verified log is wrong, or a run did not succeed. */
  refused: 3,
  /** The tenant or key does not exist. */
  notFound: 4,
  /** The server is unavailable, or the outcome is unknown. */
  unavailable: 5,
} as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** Printed at the end of every `--help`. */
export const exitCodeHelp = `
Exit codes:
  0  done
  1  something unexpected
  2  the command line or a setting is wrong; no request was sent
  3  rejected by the server; nothing has changed (verify-log: the log differs from what was signed;
     connectors: the run failed, was cancelled, was applied in part, or needs approval)
  4  the tenant or key does not exist
  5  the server is unavailable, or the outcome is unknown: the message says what to do

Errors are one line on standard error; with --json a problem document (RFC 9457) on standard error.`
