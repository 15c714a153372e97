import {
  changeActionPlanStatus,
  createActionPlan,
  extendActionPlan,
  getActionPlan,
  listActionPlans,
  listActionPlansOfFinding,
  updateActionPlan,
} from './action-plan-routes.ts'
import { bulkActionPlans, bulkFindings } from './bulk.ts'
import {
  changeFindingStatus,
  createFinding,
  findingTransitions,
  getFinding,
  listFindings,
  summarizeFindings,
  updateFinding,
} from './finding-routes.ts'
import { exportPoam } from './poam-routes.ts'
import {
  createRecommendation,
  getRecommendation,
  listRecommendations,
  listRecommendationsOfFinding,
  updateRecommendation,
} from './recommendation-routes.ts'
import {
  createLogEntry,
  getLogCheckpoint,
  listLog,
  listLogOfFinding,
  logCheckpointKeys,
  verifyLogOfFinding,
} from './tracker-log-routes.ts'

export * from './action-plan-routes.ts'
export * from './bulk.ts'
export * from './finding-routes.ts'
export * from './poam-routes.ts'
export * from './recommendation-routes.ts'
export * from './tracker-log-routes.ts'

export const findingsRoutes = [
  listFindings,
  getFinding,
  summarizeFindings,
  createFinding,
  updateFinding,
  changeFindingStatus,
  findingTransitions,
  bulkFindings,
  listRecommendations,
  listRecommendationsOfFinding,
  getRecommendation,
  createRecommendation,
  updateRecommendation,
  listActionPlans,
  listActionPlansOfFinding,
  getActionPlan,
  createActionPlan,
  updateActionPlan,
  changeActionPlanStatus,
  extendActionPlan,
  bulkActionPlans,
  listLogOfFinding,
  createLogEntry,
  verifyLogOfFinding,
  listLog,
  getLogCheckpoint,
  logCheckpointKeys,
  exportPoam,
] as const
