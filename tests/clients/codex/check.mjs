// The Codex command line, as a user runs it without a terminal: its own directory, no telemetry, no look for updates.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import test, { after } from 'node:test'

const here = import.meta.dirname
const home = mkdtempSync(path.join(here, 'home-'))
const work = path.join(home, 'work')
after(() => rmSync(home, { recursive: true, force: true }))
mkdirSync(work)
writeFileSync(path.join(work, 'note.txt'), 'sesame-9431\n')
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
  const env = { PATH: process.env.PATH, HOME: home, CODEX_HOME: home }
  const command = path.join(here, 'node_modules', '.bin', 'codex')
  const done = spawnSync(command, ['exec', '--skip-git-repo-check', '--json', ...words], { cwd: work, env, timeout: 120_000, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  const events = done.stdout.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
  const items = events.filter(({ type }) => type === 'item.completed').map(({ item }) => item)
  const said = items.filter(({ type }) => type === 'agent_message').map(({ text }) => text)
  return { status: done.status, events, items, said, stderr: done.stderr, usage: events.find(({ type }) => type === 'turn.completed')?.usage }
}

test('answer and usage', () => {
  const { status, said, usage, stderr } = codex('say hello to the agent')
  assert.equal(status, 0, stderr)
  assert.deepEqual(said, ['Hello, agent.'])
  assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0)
})

test('a thought before the answer', () => {
  const { said, usage } = codex('ponder')
  assert.deepEqual(said, ['yes'])
  assert.ok(usage.reasoning_output_tokens > 0)
})

test('it runs a command, and the conversation is taken up again', () => {
  const { items, said } = codex('codex, read the note')
  const ran = items.find(({ type }) => type === 'command_execution')
  assert.equal(ran.aggregated_output, 'sesame-9431\n')
  assert.equal(ran.exit_code, 0)
  assert.deepEqual(said, ['The note says sesame-9431.'])
  assert.deepEqual(codex('resume', '--last', 'what did it say?').said, ['The note says sesame-9431.'])
})

test('a tool of a namespace is called by its own name', () => {
  const { items, said } = codex('codex, close the agent')
  assert.deepEqual(said, ['There is no such agent.'], JSON.stringify(items))
})

test('an unknown model', () => {
  const { status, events } = codex('-m', 'nothing', 'hi')
  assert.notEqual(status, 0)
  assert.match(JSON.stringify(events), /nothing/)
})
