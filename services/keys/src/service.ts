import type { ServiceDefinition } from '@postern/service-kit'
import { buildApp } from './app.ts'
import { type Config, readConfig } from './config.ts'
import { type Deps, openDeps } from './deps.ts'

/** The definition of the keys service, for main.ts and for tests. */
export const keysService: ServiceDefinition<Config, Deps> = { name: 'keys', readConfig, openDeps, buildApp }
