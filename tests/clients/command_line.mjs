// A command line as a user runs it without a terminal: a home of its own, a directory with a note to work in.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after } from 'node:test'

const here = import.meta.dirname
const MOST = 120_000 // milliseconds, far longer than an answer takes

export const home = mkdtempSync(path.join(here, 'home-'))
const work = path.join(home, 'work')
after(() => rmSync(home, { recursive: true, force: true }))
mkdirSync(work)
writeFileSync(path.join(work, 'note.txt'), 'sesame-9431\n')

// Run a program of the client's package there with nothing of this machine's environment: its status, what it printed,
// and the JSON objects among its lines.
export function run(program, words, settings) {
  const env = { PATH: process.env.PATH, HOME: home, ...settings }
  const command = path.join(here, 'node_modules', '.bin', program)
  const done = spawnSync(command, words, { cwd: work, env, timeout: MOST, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  const lines = done.stdout.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
  return { status: done.status, lines, said: done.stdout + done.stderr }
}
