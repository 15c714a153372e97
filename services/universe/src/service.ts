import type { ServiceDefinition } from '@postern/service-kit'
import { buildApp } from './app.ts'
import { type Config, readConfig } from './config.ts'
import { type Deps, openDeps } from './deps.ts'

export const universeService: ServiceDefinition<Config, Deps> = { name: 'universe', readConfig, openDeps, buildApp }
