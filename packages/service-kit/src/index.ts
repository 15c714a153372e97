export { acceptsGzip, chooseCoding, negotiate } from './accept.ts'
export { createApp, closeConnectionsWhenDraining, requestIdPattern } from './app.ts'
export {
  type BaseConfig,
  ConfigurationError,
  type Environment,
  baseConfig,
  baseEnvironment,
  edgeEnvironment,
  parseEnvironment,
} from './config.ts'
export { type DatabaseConfig, databaseConfig, databaseEnvironment } from './database-config.ts'
export { type DatabaseObserver, observeDatabase } from './database-metrics.ts'
export {
  type AnswerBody,
  type ContractInput,
  type InternalRoute,
  completedRoute,
  contractRoute,
  internalRoute,
  enableIdempotency,
  patchRoute,
} from './contract-route.ts'
export type { App } from './register-route.ts'
export type { AnswerControl, RequestInfo } from './request-info.ts'
export { parseSha256, digestMismatch, unreadableDigestProblem } from './content-digest.ts'
export { assertIfMatch, matchesEtag, versionProblem, tagsIn } from './etag.ts'
export { type CallerKind, knownRoles, knownScopes, oneScopeNeeded, roleNeeded, scopeNeeded } from './guard.ts'
export { type ReadAheadBudget, createReadAheadBudget } from './read-ahead-budget.ts'
export { type Current, parseChange } from './sent-back.ts'
export { suppressUnhandledRejection } from './suppress-unhandled-rejection.ts'
export type { IdempotencyStore, ChangeTransaction, AnswerKeeper } from './idempotency.ts'
export { JsonText } from './json-text.ts'
export { type ListHandlers, contractList, heartbeat, mapRows } from './list-route.ts'
export { allPages, streamList } from './stream-list.ts'
export { isTooLarge } from './fitting-page.ts'
export { bodyError, inputErrors } from './input-errors.ts'
export { parseJsonBody } from './json-body.ts'
export { decimalOf } from './json-scan.ts'
export { runAfterPendingReads } from './late-process.ts'
export { type LogLevel, type Logger, createLogger, describeError, logLevels } from './logger.ts'
export { type Registry, createMetrics, measureRequests } from './metrics.ts'
export { DuplicateNameError, normalizeBody, normalizeTexts } from './normalize-text.ts'
export { type Page, type PageInput, openPage } from './page.ts'
export { type ConnectionBounds, boundConnections } from './bound-connections.ts'
export { boundUnread } from './bound-unread.ts'
export { boundPipelining, createPipelining, tooManyPipelined } from './bound-pipelining.ts'
export { countPassedBytes } from './passed-bytes.ts'
export { type Pressure, refuseWhenLate, tooBusy, watchEventLoop } from './pressure.ts'
export { findNearest } from './nearest.ts'
export { repeatEvery } from './repeat-every.ts'
export { type ReportUnreadable, answerClientError, answerProblems, isBrokenOff } from './problem-handler.ts'
export { ProblemError, type ProblemOptions, databaseUnavailable, problem } from './problem.ts'
export {
  type BaseDeps,
  type RunningService,
  type ServiceDefinition,
  failStart,
  listeningPort,
  runService,
  startService,
  warnOfUnknownSettings,
} from './run-service.ts'
export { answersWithinMs, closeOnSignal, watchServer } from './shutdown.ts'
export { cutSlowBodies } from './slow-bodies.ts'
export { detachBody, discardRest } from './discard-rest.ts'
export { type Stall, watchStall } from './stall.ts'
export { type PageStart, type StoredList, storedList } from './stored-list.ts'
export { type SigningKeys, settings } from './settings.ts'
export { StreamedAnswer } from './streamed-answer.ts'
export { type RequestContext, ShareExceededError } from './tenant-shares.ts'
export { type Span, type SpanStart, type Tracing, openTracing } from './tracing/tracing.ts'
