// What decides whether a request is accepted. The gateway decides with it, and the keys service explains with it.
export { type Caller, type Denial, denialOf } from './access.ts'
export { createAddressMatcher, isAddress, parseAddressRanges } from './address-matcher.ts'
export { type KeyRefusal, refusalOfKey } from './decide-key.ts'
export { type Match, type RouteMatcher, createRouteMatcher, matchOverride } from './route-match.ts'
export { targetRemedy } from './target-remedy.ts'
