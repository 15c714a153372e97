/** What is doubtful in a row that is taken in all the same. */
export interface RowWarning {
  /** The field, with dots between its members. */
  readonly field: string
  readonly code: 'residual_above_inherent'
  readonly message: string
}

type Row = Readonly<Record<string, unknown>>

/** What is left of a risk is rarely more than the risk was before anything was done about it. */
export function warningsOfEntity({ inherent_risk: inherent, residual_risk: residual }: Row): readonly RowWarning[] {
  const [before, left] = [scoreOf(inherent), scoreOf(residual)]
  if (before === undefined || left === undefined || left <= before) return []
  const message = `is above the inherent score of ${before}: look whether the two were exchanged`
  return [{ field: 'residual_risk.score', code: 'residual_above_inherent', message }]
}

function scoreOf(risk: unknown): number | undefined {
  if (typeof risk !== 'object' || risk === null || !('score' in risk)) return undefined
  return typeof risk.score === 'number' ? risk.score : undefined
}
