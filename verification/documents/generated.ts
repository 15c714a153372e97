import { renderProblems, renderRoutes } from './api.ts'
import { renderAssurance } from './assurance.ts'
import { renderConnectors } from './connectors.ts'
import { renderMessages } from './messages.ts'
import { renderMetrics } from './metrics.ts'
import { readPromises } from './promises.ts'
import { renderPythonClient } from './python/client.ts'
import { renderPythonModels } from './python/models.ts'
import { renderSettings } from './settings.ts'
import { renderSignInCodes } from './sign-in-codes.ts'

export const generatedDocuments: Readonly<Record<string, () => string>> = {
  'ASSURANCE.md': () => renderAssurance(readPromises()),
  'docs/reference/settings.md': renderSettings,
  'docs/reference/routes.md': renderRoutes,
  'docs/reference/problems.md': renderProblems,
  'docs/reference/metrics.md': renderMetrics,
  'docs/reference/messages.md': renderMessages,
  'docs/reference/connectors.md': renderConnectors,
  'docs/reference/sign-in-codes.md': renderSignInCodes,
  'clients/python/src/postern/models.py': renderPythonModels,
  'clients/python/src/postern/_operations.py': renderPythonClient,
}
