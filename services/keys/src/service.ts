import type { ServiceDefinition } from '@postern/service-kit'
import { buildApp } from './app.ts'
import { type Config, readConfig } from './config.ts'
import { type Deps, openDeps } from './deps.ts'

/** The keys service, as main.ts runs it in a process of its own and the tests inside theirs. */
export const keysService: ServiceDefinition<Config, Deps> = { name: 'keys', readConfig, openDeps, buildApp }
