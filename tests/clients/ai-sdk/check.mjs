// Vercel's AI SDK with its openai-compatible provider, and with OpenAI's over responses.
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, stepCountIs, streamText, tool } from 'ai'
import assert from 'node:assert/strict'
import test from 'node:test'
import { z } from 'zod'

const options = { name: 'appliance', baseURL: `${process.env.BASE_URL}/v1`, apiKey: 'any', includeUsage: true }
const provider = createOpenAICompatible(options)
const asked = (prompt, model = 'demo') => ({ model: provider(model), prompt, maxRetries: 0 })
const weather = tool({
  description: 'Tell the weather.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `it is sunny in ${city}`,
})
const raise = ({ error }) => { throw error }

test('answer and usage', async () => {
  const { text, usage, finishReason } = await generateText(asked('hi'))
  assert.equal(text, 'You said: hi')
  assert.equal(finishReason, 'stop')
  assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens)
})

test('stream and usage', async () => {
  const stream = streamText({ ...asked('hi'), onError: raise })
  assert.equal(await stream.text, 'You said: hi')
  assert.equal(await stream.finishReason, 'stop')
  assert.ok((await stream.usage).outputTokens > 0)
})

test('reasoning, streamed and not', async () => {
  for (const answer of [await generateText(asked('ponder', 'thinker')), streamText(asked('ponder', 'thinker'))]) {
    assert.deepEqual([await answer.reasoningText, await answer.text], ['hm, hm', 'yes'])
  }
})

test('tool calls and their results, streamed and not', async () => {
  const body = { ...asked('weather in two cities?'), tools: { weather }, stopWhen: stepCountIs(3) }
  for (const answer of [await generateText(body), streamText(body)]) {
    const [first] = await answer.steps
    assert.deepEqual(first.toolCalls.map((call) => call.input.city), ['Bern', 'Rom'])
    assert.equal(await answer.text, 'Take a hat.')
  }
})

test('an unknown model', async () => {
  const wrong = (error) => APICallError.isInstance(error) && error.statusCode === 404 && /nothing/.test(error.message)
  await assert.rejects(generateText(asked('hi', 'nothing')), wrong)
  const errors = []
  await streamText({ ...asked('hi', 'nothing'), onError: ({ error }) => errors.push(error) }).consumeStream()
  assert.ok(errors.length > 0 && errors.every(wrong))
})

test('responses: tools are called, and what is kept is only referred to', async () => {
  const openai = createOpenAI({ baseURL: options.baseURL, apiKey: 'any' })
  for (const model of ['demo', 'thinker']) {
    const body = { model: openai(model), prompt: 'weather in Zürich?', tools: { weather }, stopWhen: stepCountIs(3), maxRetries: 0 }
    const whole = await generateText(body)
    assert.equal(whole.text, 'Take a hat.')
    assert.equal(whole.steps.length, 2)
    const stream = streamText({ ...body, onError: raise })
    assert.equal(await stream.text, 'Take a hat.')
  }
  const thinking = { openai: { forceReasoning: true, reasoningSummary: 'auto' } }
  const body = { model: openai('thinker'), prompt: 'ponder', maxRetries: 0, providerOptions: thinking }
  const { text, usage, reasoningText } = await generateText(body)
  assert.equal(text, 'yes')
  assert.equal(reasoningText, 'hm, hm')
  assert.ok(usage.outputTokenDetails.reasoningTokens > 0)
})
