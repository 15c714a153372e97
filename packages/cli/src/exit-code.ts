/** What the exit code tells a script. The numbers are part of the interface: they never change their meaning. */
export const exitCodes = {
  ok: 0,
  /** A fault of the command, or an answer that it does not understand. */
  unexpected: 1,
  /** The command line or the settings are wrong; nothing was sent. */
  usage: 2,
  /** The server refused (4xx), and nothing has changed; or what was to be verified is not true; or a run came to no good end. */
  refused: 3,
  /** There is no such tenant or key. */
  notFound: 4,
  /** Nothing answers, or it is not known whether the change is in force. */
  unavailable: 5,
} as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** The end of every `--help`. */
export const exitCodeHelp = `
Exit codes:
  0  done
  1  something unexpected
  2  the command line or a setting is wrong; nothing was sent
  3  refused by the server; nothing has changed (verify-log: the log is not what was signed;
     connectors: the run has failed, was cancelled, was applied in part, or waits for approval)
  4  no such tenant or key
  5  nothing answers, or the outcome is not confirmed: the line says what to do

Errors are one line on standard error; with --json a problem document (RFC 9457) on standard error.`
