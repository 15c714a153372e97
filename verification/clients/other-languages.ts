import { copyFile, cp, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './command.ts'
import type { Tool, Workshop } from './tool.ts'

const programs = join(import.meta.dirname, 'programs')
const ownPython = join(import.meta.dirname, '..', '..', 'clients', 'python')

const warehouseGuide = join(import.meta.dirname, '..', '..', 'docs', 'guides', 'load-a-warehouse.md')

const packages = {
  'openapi-spec-validator': '0.9.0',
  'openapi-python-client': '0.29.1',
  schemathesis: '4.32.5',
  fastmcp: '4.2.3',
  dlt: '1.31.0',
  duckdb: '2.0.1',
  pandas: '3.1.1',
  build: '1.6.1',
  mypy: '2.4.1',
  pytest: '9.2.0',
} as const

/** Makes a folder and a Python environment with these packages, and returns both. */
async function openPython(workshop: Workshop, name: string, ...wanted: readonly string[]) {
  const cwd = join(workshop.folder, name)
  await mkdir(cwd, { recursive: true })
  await run('python3', ['-m', 'venv', 'environment'], { cwd })
  const bin = join(cwd, 'environment', 'bin')
  if (wanted.length > 0) await install(cwd, bin, ...wanted)
  return { cwd, bin }
}

async function install(cwd: string, bin: string, ...wanted: readonly string[]): Promise<void> {
  await run(join(bin, 'pip'), ['install', '--quiet', '--disable-pip-version-check', ...wanted], { cwd })
}

function pinned(name: keyof typeof packages): string {
  return `${name}==${packages[name]}`
}

/** Our own client: its types, and its tests with the wheel that users install. */
const postern: Tool = {
  name: 'postern-audit-client',
  needs: ['python3'],
  prove: async (workshop) => {
    const tools = [pinned('build'), pinned('mypy'), pinned('pytest')]
    const { cwd, bin } = await openPython(workshop, 'postern-audit-client', ...tools)
    const copy = join(cwd, 'client')
    await cp(ownPython, copy, { recursive: true })
    await run(join(bin, 'python'), ['-m', 'build', '--outdir', '../built'], { cwd: copy })
    const [wheel = ''] = (await readdir(join(cwd, 'built'))).filter((name) => name.endsWith('.whl'))
    await install(cwd, bin, `${join(cwd, 'built', wheel)}[receipts]`)
    await run(join(bin, 'python'), ['-m', 'mypy'], { cwd: copy })
    await run(join(bin, 'python'), ['-m', 'pytest'], { cwd: copy, env: workshop.variables })
  },
}

const specValidator: Tool = {
  name: 'openapi-spec-validator',
  needs: ['python3'],
  prove: async (workshop) => {
    const { cwd, bin } = await openPython(workshop, 'openapi-spec-validator', pinned('openapi-spec-validator'))
    await run(join(bin, 'openapi-spec-validator'), [workshop.document], { cwd })
  },
}

const pythonClient: Tool = {
  name: 'openapi-python-client',
  needs: ['python3'],
  prove: async (workshop) => {
    const { cwd, bin } = await openPython(workshop, 'openapi-python-client', pinned('openapi-python-client'))
    const options = ['generate', '--path', workshop.document, '--meta', 'none', '--output-path', 'generated']
    await run(join(bin, 'openapi-python-client'), options, {
      cwd,
      env: { PATH: `${bin}:${process.env['PATH'] ?? ''}` },
    })
    await copyFile(join(programs, 'openapi_python_client.py'), join(cwd, 'program.py'))
    await copyFile(join(programs, 'steps.py'), join(cwd, 'steps.py'))
    await run(join(bin, 'python'), ['program.py'], { cwd, env: workshop.variables })
  },
}

/** Sends what the document allows and compares each answer with it. The seed makes runs repeatable. */
const schemathesis: Tool = {
  name: 'schemathesis',
  needs: ['python3'],
  prove: async (workshop) => {
    const { POSTERN_URL: url = '', POSTERN_KEY: key = '' } = workshop.variables
    const { cwd, bin } = await openPython(workshop, 'schemathesis', pinned('schemathesis'))
    const checks = 'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance'
    const bounds = ['--seed', '1', '--max-examples', '10', '--phases', 'examples,coverage,fuzzing', '--checks', checks]
    // `/scim/v2/Me` is 501, as RFC 7644, section 3.11 has it for services without it.
    const reads = ['--include-method', 'GET', '--exclude-path-regex', '^(/docs|/scim/v2/Me)$']
    await run(
      join(bin, 'schemathesis'),
      ['run', workshop.document, '--url', url, '-H', `Authorization: ApiKey ${key}`, ...bounds, ...reads],
      { cwd },
    )
  },
}

const fastmcp: Tool = {
  name: 'fastmcp',
  needs: ['python3'],
  prove: async (workshop) => {
    const { cwd, bin } = await openPython(workshop, 'fastmcp', pinned('fastmcp'), 'httpx')
    await copyFile(join(programs, 'fastmcp_tools.py'), join(cwd, 'program.py'))
    await run(join(bin, 'python'), ['program.py', workshop.document], { cwd, env: workshop.variables })
  },
}

const warehouse: Tool = {
  name: 'load-a-warehouse',
  needs: ['python3'],
  prove: async (workshop) => {
    const wanted = [pinned('dlt'), pinned('duckdb'), pinned('pandas'), 'requests']
    const { cwd, bin } = await openPython(workshop, 'load-a-warehouse', ...wanted)
    const env = { ...workshop.variables, HOME: cwd }
    await run(join(bin, 'python'), [join(programs, 'load_a_warehouse.py'), warehouseGuide], { cwd, env })
  },
}

const oapiCodegen: Tool = {
  name: 'oapi-codegen',
  needs: ['go'],
  prove: async (workshop) => {
    const cwd = join(workshop.folder, 'oapi-codegen')
    await mkdir(cwd, { recursive: true })
    const generator = 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2'
    await run('go', ['mod', 'init', 'postern.example/client'], { cwd })
    const options = ['-package', 'main', '-generate', 'types,client', '-o', 'client.go', workshop.document]
    await run('go', ['run', generator, ...options], { cwd })
    await copyFile(join(programs, 'oapi_codegen.go'), join(cwd, 'main.go'))
    await run('go', ['mod', 'tidy'], { cwd })
    await run('go', ['run', '.'], { cwd, env: workshop.variables })
  },
}

/** The generators of openapi-generator need Java, and the language of the client. */
const generatorVersion = '7.25.0'

function define(name: string, value: string): string {
  return `-D${name}=${value}`
}

async function generate(workshop: Workshop, cwd: string, ...options: readonly string[]): Promise<void> {
  await mkdir(cwd, { recursive: true })
  const artifact = `org.openapitools:openapi-generator-cli:${generatorVersion}`
  const copy = ['-q', 'dependency:copy', define('artifact', artifact), define('outputDirectory', workshop.folder)]
  await run('mvn', copy, { cwd })
  const jar = join(workshop.folder, `openapi-generator-cli-${generatorVersion}.jar`)
  await run('java', ['-jar', jar, 'generate', '-i', workshop.document, '-o', 'generated', ...options], { cwd })
}

const generatedPython: Tool = {
  name: 'openapi-generator-python',
  needs: ['java', 'mvn', 'python3'],
  prove: async (workshop) => {
    const { cwd, bin } = await openPython(workshop, 'openapi-generator-python')
    await generate(workshop, cwd, '-g', 'python', '--additional-properties=packageName=postern_client')
    await install(cwd, bin, './generated')
    await copyFile(join(programs, 'openapi_generator.py'), join(cwd, 'program.py'))
    await copyFile(join(programs, 'steps.py'), join(cwd, 'steps.py'))
    await run(join(bin, 'python'), ['program.py'], { cwd, env: workshop.variables })
  },
}

const generatedJava: Tool = {
  name: 'openapi-generator-java',
  needs: ['java', 'mvn'],
  prove: async (workshop) => {
    const cwd = join(workshop.folder, 'openapi-generator-java')
    const names =
      '--additional-properties=apiPackage=client.api,modelPackage=client.model,invokerPackage=client,useSingleRequestParameter=true'
    await generate(workshop, cwd, '-g', 'java', '--library', 'okhttp-gson', names)
    const project = join(cwd, 'generated')
    await copyFile(join(programs, 'Program.java'), join(project, 'src', 'main', 'java', 'Program.java'))
    const language = [define('maven.compiler.source', '17'), define('maven.compiler.target', '17')]
    await run('mvn', ['-q', define('skipTests', 'true'), ...language, 'compile'], { cwd: project })
    const exec = 'org.codehaus.mojo:exec-maven-plugin:3.5.1:java'
    await run('mvn', ['-q', exec, define('exec.mainClass', 'Program')], { cwd: project, env: workshop.variables })
  },
}

const generatedGo: Tool = {
  name: 'openapi-generator-go',
  needs: ['java', 'mvn', 'go'],
  prove: async (workshop) => {
    const cwd = join(workshop.folder, 'openapi-generator-go')
    const names = '--additional-properties=packageName=client,withGoMod=false'
    await generate(workshop, cwd, '-g', 'go', names, '--global-property', 'apiTests=false')
    await writeFile(join(cwd, 'go.mod'), 'module postern.example\n\ngo 1.24\n')
    await copyFile(join(programs, 'openapi_generator.go'), join(cwd, 'main.go'))
    await run('go', ['mod', 'tidy'], { cwd })
    await run('go', ['run', '.'], { cwd, env: workshop.variables })
  },
}

export const otherTools: readonly Tool[] = [
  postern,
  specValidator,
  pythonClient,
  schemathesis,
  fastmcp,
  warehouse,
  oapiCodegen,
  generatedPython,
  generatedJava,
  generatedGo,
]
