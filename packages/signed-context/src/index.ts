export {
  type AssertionClaim,
  type AssertionKeeper,
  type AssertionMinter,
  type MintedAssertion,
  createAssertionMinter,
  mintAssertion,
  parseAssertion,
  verifyAssertion,
} from './assertion.ts'
export {
  type Caller,
  type CallerKind,
  type TenantContext,
  noAssertion,
  parseContext,
  serializeContext,
} from './context.ts'
export { type Mac, createMac } from './hmac.ts'
export { type KeyRing, type SigningKey, parseKeyRing } from './key-ring.ts'
export {
  type OperatorCredential,
  createOperatorCredential,
  isOperatorName,
  operatorKeyName,
  parseOperatorCredential,
} from './operator-credential.ts'
export { type CanonicalTarget, type TargetRefusal, canonicalTarget } from './request-target.ts'
export { type RequestSignature, type SignableRequest, type Signer, UnsignableValueError, createSigner } from './sign.ts'
export { nilTenantId } from './tenant-id.ts'
export {
  type ReceivedRequest,
  type SignatureRefusal,
  type Verification,
  type Verifier,
  type VerifierOptions,
  createVerifier,
} from './verify.ts'
