/** The URL of an endpoint that mails the owner of each key, and the types that it can get. */
export const keyOwnerUrl = 'mailto:{key_owner}'
export const keyOwnerEvents: readonly string[] = ['key.expiring', 'key.expired', 'key.leaked', 'key.revoked']
