import { fileURLToPath } from 'node:url'
import optimizeLocales from '@react-aria/optimize-locales-plugin'
import type * as contracts from '@postern/contracts'
import { type Plugin, defineConfig, runnerImport } from 'vite'
import { describeFields } from './describe-fields.ts'

const root = fileURLToPath(new URL('.', import.meta.url))
const conditions = ['@postern/source', 'module', 'browser', 'development|production']

const virtualModules: Readonly<Record<string, (module: typeof contracts) => string>> = {
  'virtual:routes': ({ routeTable }) => {
    const routes = routeTable.map(({ id: name, method, path, summary, tag, access }) => {
      return { id: name, method, path, summary, tag, access }
    })
    return `export const routes = ${JSON.stringify(routes)}`
  },
  'virtual:datasets': (module) => {
    const datasets: Readonly<Record<contracts.Connector['dataset'], unknown>> = {
      auditable_entities: describeFields(module.pushedEntitySchema),
      org_structure: describeFields(module.pushedNodeSchema),
      people: describeFields(module.pushedPersonSchema),
      test_procedures: describeFields(module.pushedTestProcedureSchema),
    }
    return `export const datasets = ${JSON.stringify(datasets)}`
  },
}

/** Schemas in the browser would double the bundle and need eval, which the content policy forbids. */
function contractsModules(): Plugin {
  return {
    name: 'postern-contracts',
    resolveId: (source) => (source in virtualModules ? `\0${source}` : undefined),
    load: async (source) => {
      const render = virtualModules[source.replace('\0', '')]
      if (!source.startsWith('\0') || render === undefined) return undefined
      const { module } = await runnerImport<typeof contracts>('@postern/contracts', {
        root,
        configFile: false,
        resolve: { conditions },
        ssr: { resolve: { conditions, externalConditions: conditions } },
        environments: { inline: { resolve: { conditions, externalConditions: conditions } } },
      })
      return render(module)
    },
  }
}

export default defineConfig({
  root,
  // The console's path is known only when it starts.
  base: './',
  resolve: { conditions },
  plugins: [contractsModules(), { ...optimizeLocales.vite({ locales: ['en-US'] }), enforce: 'pre' }],
  // The server replaces the placeholder with a new nonce in each response.
  html: { cspNonce: '__CSP_NONCE__' },
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    // A data: URL would need a wider content policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
  },
  server: { host: '127.0.0.1', proxy: { '/auth': 'http://127.0.0.1:8090', '/api': 'http://127.0.0.1:8090' } },
})
