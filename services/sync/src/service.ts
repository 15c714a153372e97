import type { ServiceDefinition } from '@postern/service-kit'
import { buildApp } from './app.ts'
import { type Config, readConfig } from './config.ts'
import { type Deps, openDeps } from './deps.ts'

export const syncService: ServiceDefinition<Config, Deps> = { name: 'sync', readConfig, openDeps, buildApp }
