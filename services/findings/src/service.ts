import type { ServiceDefinition } from '@postern/service-kit'
import { buildApp } from './app.ts'
import { type Config, readConfig } from './config.ts'
import { type Deps, openDeps } from './deps.ts'

/** The findings service, as `main` runs it and tests start it. */
export const findingsService: ServiceDefinition<Config, Deps> = { name: 'findings', readConfig, openDeps, buildApp }
