/** The guides of each audience, in the order of the navigation. */
export const audiences: Readonly<Record<string, readonly string[]>> = {
  Integrators: [
    'first-request',
    'read-lists',
    'follow-changes',
    'load-a-warehouse',
    'excel-and-power-bi',
    'document-findings',
    'upload-evidence',
    'push-the-universe',
    'generate-a-client',
    'ai-agents',
  ],
  Administrators: ['manage-keys', 'automate-keys', 'provision-with-scim', 'receive-webhooks'],
  Auditors: ['audit-feed', 'verify-a-log'],
  Operators: [
    'run-the-demo',
    'single-sign-on',
    'sign-in-auth0',
    'sign-in-dex',
    'sign-in-entra-id',
    'sign-in-google-workspace',
    'sign-in-keycloak',
    'sign-in-okta',
    'console-sessions',
    'receive-github-reports',
  ],
}

export const guideNames: ReadonlySet<string> = new Set(Object.values(audiences).flat())
