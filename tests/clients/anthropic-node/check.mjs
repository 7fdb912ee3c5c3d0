// Anthropic's own client for JavaScript: messages, its stream helper, counting, batches.
import Anthropic from '@anthropic-ai/sdk'
import assert from 'node:assert/strict'
import test from 'node:test'

const client = new Anthropic({ baseURL: process.env.BASE_URL, apiKey: 'any', maxRetries: 0 })
const asked = (content, model = 'demo') => ({ model, max_tokens: 200, messages: [{ role: 'user', content }] })
const input_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [{ name: 'weather', description: 'Tell the weather.', input_schema }]

test('answer, usage and count', async () => {
  const answer = await client.messages.create(asked('hi'))
  assert.deepEqual([answer.content[0].text, answer.stop_reason], ['You said: hi', 'end_turn'])
  assert.ok(answer.usage.output_tokens > 0)
  const { max_tokens, ...counted } = asked('how many?')
  const { usage } = await client.messages.create(asked('how many?'))
  const { input_tokens } = await client.messages.countTokens(counted)
  assert.equal(input_tokens, usage.input_tokens + usage.cache_read_input_tokens)
})

test('stream and usage', async () => {
  const pieces = []
  const stream = client.messages.stream(asked('hi')).on('text', (text) => pieces.push(text))
  const answer = await stream.finalMessage()
  assert.deepEqual([pieces.join(''), answer.content[0].text], ['You said: hi', 'You said: hi'])
  assert.ok(answer.usage.output_tokens > 0)
})

test('tool calls, streamed and not', async () => {
  const body = { ...asked('weather in two cities?'), tools }
  for (const answer of [await client.messages.create(body), await client.messages.stream(body).finalMessage()]) {
    const calls = answer.content.filter((block) => block.type === 'tool_use')
    assert.deepEqual([calls.map((call) => call.input.city), answer.stop_reason], [['Bern', 'Rom'], 'tool_use'])
  }
})

test('the result of a tool', async () => {
  const { messages, ...body } = { ...asked('weather in Zürich?'), tools }
  const call = await client.messages.create({ ...body, messages })
  const result = { type: 'tool_result', tool_use_id: call.content[0].id, content: 'it is sunny' }
  const turns = [...messages, { role: 'assistant', content: call.content }, { role: 'user', content: [result] }]
  assert.equal((await client.messages.create({ ...body, messages: turns })).content[0].text, 'Take a hat.')
})

test('thinking, streamed', async () => {
  const answer = await client.messages.stream(asked('ponder', 'thinker')).finalMessage()
  assert.deepEqual(answer.content.map((block) => block.thinking ?? block.text), ['hm, hm', 'yes'])
})

test('a batch and its results', async () => {
  const requests = ['a', 'b'].map((id) => ({ custom_id: id, params: asked(id) }))
  const { id } = await client.messages.batches.create({ requests })
  while ((await client.messages.batches.retrieve(id)).processing_status !== 'ended');
  const told = {}
  for await (const { custom_id, result } of await client.messages.batches.results(id)) told[custom_id] = result.message.content[0].text
  assert.deepEqual(told, { a: 'You said: a', b: 'You said: b' })
  await client.messages.batches.delete(id)
})

test('an unknown model', async () => {
  const wrong = (error) => error instanceof Anthropic.NotFoundError && /nothing/.test(error.message)
  await assert.rejects(client.messages.create(asked('hi', 'nothing')), wrong)
})
