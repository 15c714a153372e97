export { type FoundKey, findKeys, maskKeys } from './find-keys.ts'
export {
  type GeneratedKey,
  type ParsedKey,
  generateKey,
  keyChecksum,
  keyLength,
  keyPrefix,
  parseKey,
} from './format.ts'
export { type KeyHash, hashKey, isKeyHash } from './hash.ts'
export { lastFourOf, maskKey } from './mask.ts'
export {
  type GrantableScope,
  type NamedScope,
  type WildcardScope,
  expandScopes,
  grantsScope,
  isGrantableScope,
  isNarrowerOrEqual,
  namedScopes,
  wildcardScopes,
} from './scope.ts'
export { type KeyLife, type KeyState, type Instant, keyState } from './state.ts'
