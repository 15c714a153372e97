import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './command.ts'
import type { Tool, Workshop } from './tool.ts'

const programs = join(import.meta.dirname, 'programs')
const compilers = { typescript: '5.9.3', '@types/node': '24.12.0', esbuild: '0.28.2' }

interface Recipe {
  readonly name: string
  readonly packages: Readonly<Record<string, string>>
  readonly generate: (workshop: Workshop) => readonly [program: string, ...args: string[]]
  /** Default: the one of the same name. */
  readonly program?: string
}

/** Each has a program, which uses what the generator writes to `generated`. */
const recipes: readonly Recipe[] = [
  {
    name: 'hey-api',
    packages: { '@hey-api/openapi-ts': '0.99.0' },
    generate: ({ document }) => [
      'openapi-ts',
      '--input',
      document,
      '--output',
      'generated',
      '--client',
      '@hey-api/client-fetch',
    ],
  },
  {
    name: 'orval',
    packages: { orval: '8.38.0' },
    generate: () => ['orval', '--config', 'orval.config.mjs'],
  },
  swaggerTypescriptApi('swagger-typescript-api', ({ document }) => document),
  swaggerTypescriptApi('swagger-typescript-api of OpenAPI 2.0', ({ swagger }) => swagger),
]

function swaggerTypescriptApi(name: string, pathOf: (workshop: Workshop) => string): Recipe {
  const command = ['swagger-typescript-api', 'generate', '--output', 'generated', '--name', 'api.ts'] as const
  return {
    name,
    packages: { 'swagger-typescript-api': '13.13.0' },
    generate: (workshop) => [...command, '--path', pathOf(workshop)],
    program: 'swagger-typescript-api',
  }
}

export const openApiTypescript: Tool = toolOf({
  name: 'openapi-typescript',
  packages: { 'openapi-typescript': '7.13.0', 'openapi-fetch': '0.17.0' },
  generate: ({ document }) => ['openapi-typescript', document, '--output', 'generated/api.d.ts'],
})

function toolOf({ name, packages, generate, program: source = name }: Recipe): Tool {
  return {
    name,
    needs: ['npm'],
    prove: async (workshop: Workshop) => {
      const { folder, document, variables } = workshop
      const cwd = join(folder, name.replaceAll(' ', '-'))
      await mkdir(join(cwd, 'generated'), { recursive: true })
      await writeFile(
        join(cwd, 'package.json'),
        JSON.stringify({ private: true, type: 'module', dependencies: { ...packages, ...compilers } }),
      )
      await writeFile(
        join(cwd, 'tsconfig.json'),
        JSON.stringify({
          compilerOptions: {
            strict: true,
            target: 'es2023',
            module: 'esnext',
            moduleResolution: 'bundler',
            lib: ['es2023', 'dom', 'dom.iterable'],
            types: ['node'],
            noEmit: true,
          },
          include: ['program.ts', 'generated'],
        }),
      )
      await writeFile(join(cwd, 'orval.config.mjs'), orvalConfig(document, variables))
      await copyFile(join(programs, `${source}.ts`), join(cwd, 'program.ts'))
      await copyFile(join(programs, 'steps.ts'), join(cwd, 'steps.ts'))
      await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd })
      const [program, ...args] = generate(workshop)
      await run(join(cwd, 'node_modules', '.bin', program), args, { cwd })
      await run(join(cwd, 'node_modules', '.bin', 'tsc'), [], { cwd })
      const bundle = ['program.ts', '--bundle', '--platform=node', '--format=esm', '--outfile=program.mjs']
      await run(join(cwd, 'node_modules', '.bin', 'esbuild'), bundle, { cwd })
      await run(process.execPath, ['program.mjs'], { cwd, env: variables })
    },
  }
}

export const javaScriptTools: readonly Tool[] = [openApiTypescript, ...recipes.map(toolOf)]

/** Orval takes the address of the API from a file only. */
function orvalConfig(target: string, { POSTERN_URL: baseUrl }: Workshop['variables']): string {
  const output = { target: 'generated/api.ts', client: 'fetch', baseUrl }
  return `export default ${JSON.stringify({ postern: { input: { target }, output } })}\n`
}
