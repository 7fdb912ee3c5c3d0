// The Codex command line: no telemetry, no look for updates.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import test from 'node:test'
import { home, run } from './command_line.mjs'

writeFileSync(
  path.join(home, 'config.toml'),
  `model = "thinker"
model_provider = "appliance"
check_for_update_on_startup = false
approval_policy = "never"
# What the script has it run is "cat note.txt"; its own sandbox needs rights that a container may lack.
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[otel]
exporter = "none"
[model_providers.appliance]
name = "appliance"
base_url = "${process.env.BASE_URL}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`,
)

function codex(...words) {
  const done = run('codex', ['exec', '--skip-git-repo-check', '--json', ...words], { CODEX_HOME: home })
  const items = done.lines.filter(({ type }) => type === 'item.completed').map(({ item }) => item)
  const answers = items.filter(({ type }) => type === 'agent_message').map(({ text }) => text)
  return { ...done, items, answers, usage: done.lines.find(({ type }) => type === 'turn.completed')?.usage }
}

test('answer and usage', () => {
  const { status, answers, usage, said } = codex('say hello to the agent')
  assert.equal(status, 0, said)
  assert.deepEqual(answers, ['Hello, agent.'])
  assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0)
})

test('a thought before the answer', () => {
  const { answers, usage } = codex('ponder')
  assert.deepEqual(answers, ['yes'])
  assert.ok(usage.reasoning_output_tokens > 0)
})

test('it runs a command, and the conversation is taken up again', () => {
  const { items, answers } = codex('codex, read the note')
  const ran = items.find(({ type }) => type === 'command_execution')
  assert.equal(ran.aggregated_output, 'sesame-9431\n')
  assert.equal(ran.exit_code, 0)
  assert.deepEqual(answers, ['The note says sesame-9431.'])
  assert.deepEqual(codex('resume', '--last', 'what did it say?').answers, ['The note says sesame-9431.'])
})

test('a tool of a namespace is called by its own name', () => {
  const { items, answers } = codex('codex, close the agent')
  assert.deepEqual(answers, ['There is no such agent.'], JSON.stringify(items))
})

test('an unknown model', () => {
  const { status, said } = codex('-m', 'nothing', 'hi')
  assert.notEqual(status, 0)
  assert.match(said, /nothing/)
})
