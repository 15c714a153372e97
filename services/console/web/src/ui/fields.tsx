import type { ReactNode } from 'react'
import { FieldError } from 'react-aria-components/FieldError'
import { Input } from 'react-aria-components/Input'
import { Label } from 'react-aria-components/Label'
import { Text } from 'react-aria-components/Text'
import { TextArea } from 'react-aria-components/TextArea'
import { TextField } from 'react-aria-components/TextField'

interface Props {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly help?: ReactNode
  readonly error?: string | undefined
  /** `unmarked`: without the note “optional”. */
  readonly isOptional?: boolean | 'unmarked'
  readonly maxLength?: number
  readonly placeholder?: string
  readonly rows?: number
  readonly autoFocus?: boolean
  readonly isSecret?: boolean
  readonly isNumber?: boolean
}

export function TextBox(props: Props) {
  const { label, value, onChange, help, error, isOptional = false, maxLength, placeholder, rows, autoFocus } = props
  const { isSecret = false, isNumber = false } = props
  const limits = maxLength === undefined ? {} : { maxLength }
  const hint = placeholder === undefined ? {} : { placeholder }
  return (
    <TextField
      className="field"
      value={value}
      onChange={onChange}
      isInvalid={error !== undefined}
      isRequired={isOptional === false}
      validationBehavior="aria"
      autoFocus={autoFocus ?? false}
      autoComplete={isSecret ? 'new-password' : 'off'}
      type={isSecret ? 'password' : 'text'}
      {...(isNumber ? { inputMode: 'numeric' } : {})}
      {...limits}
    >
      <Label>
        {label}
        {isOptional === true ? <span className="optional">optional</span> : undefined}
      </Label>
      {rows === undefined ? (
        <Input className="input" spellCheck={false} {...hint} />
      ) : (
        <TextArea className="input" rows={rows} spellCheck={false} {...hint} />
      )}
      {help === undefined ? undefined : (
        <Text slot="description" className="help">
          {help}
        </Text>
      )}
      <FieldError className="field-error">{error}</FieldError>
    </TextField>
  )
}
