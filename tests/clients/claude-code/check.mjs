// The Claude Code command line: no telemetry, no updates.
import assert from 'node:assert/strict'
import test from 'node:test'
import { run } from './command_line.mjs'

const settings = {
  ANTHROPIC_BASE_URL: process.env.BASE_URL,
  ANTHROPIC_AUTH_TOKEN: 'any',
  ANTHROPIC_MODEL: 'thinker',
  ANTHROPIC_DEFAULT_HAIKU_MODEL: 'demo',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_TELEMETRY: '1',
  DISABLE_ERROR_REPORTING: '1',
  DISABLE_AUTOUPDATER: '1',
  CLAUDE_CODE_MAX_RETRIES: '0',
}
const claude = (...words) => run('claude', ['-p', ...words], settings)
const one = (...words) => claude('--output-format', 'json', ...words).lines.at(-1)

test('answer and usage', () => {
  const answer = one('say hello to the agent')
  assert.equal(answer.result, 'Hello, agent.')
  assert.equal(answer.is_error, false)
  assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0)
})

test('a thought before the answer, and its stream', () => {
  const { lines, said } = claude('--output-format', 'stream-json', '--verbose', '--include-partial-messages', 'ponder')
  assert.equal(lines.at(-1).result, 'yes', said)
  const kinds = lines.filter(({ type }) => type === 'stream_event').map(({ event }) => event.type)
  assert.equal(kinds[0], 'message_start')
  assert.equal(kinds.at(-1), 'message_stop')
})

test('it reads a file, and the conversation is taken up again', () => {
  const answer = one('claude, read the note')
  assert.equal(answer.result, 'The note says sesame-9431.')
  assert.equal(answer.num_turns, 2)
  assert.deepEqual(answer.permission_denials, [])
  assert.equal(one('--continue', 'what did it say?').result, 'The note says sesame-9431.')
})

test('it runs a command', () => {
  const answer = one('--allowedTools', 'Bash(cat:*)', '--', 'claude, print the note')
  assert.equal(answer.result, 'The note says sesame-9431.')
})

test('it looks for a tool that it was not told of', () => {
  const { result, num_turns } = one('claude, look for a tool')
  assert.equal(result, 'There it is.')
  assert.equal(num_turns, 2)
})

test('an unknown model', () => {
  const { status, said } = claude('--output-format', 'json', '--model', 'nothing', 'hi')
  assert.notEqual(status, 0)
  assert.match(said, /nothing/)
})
