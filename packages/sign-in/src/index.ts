export { readSignIn, signInEnvironment, signInProviders } from './environment.ts'
export { type KeySet, openKeySet } from './key-set.ts'
export {
  type Claims,
  type DirectoryName,
  type ClaimsReading,
  type Grant,
  type Person,
  findClaim,
  refuseTenants,
  readClaims,
  readGrants,
} from './read-claims.ts'
export {
  type SignInCode,
  type SignInRefusal,
  describeCode,
  explainRefusal,
  refusalFields,
  shorten,
  signInCodes,
} from './refusal.ts'
export { type NamedTenant, type SignInProvider, listNamedTenants, parseSignIn } from './settings.ts'
export { type ReadUserinfo, createUserinfoReader } from './userinfo.ts'
export { type ProviderSources, type TokenCheck, inspectToken, verifyToken } from './verify-token.ts'
