"""The forked layout, for decoders some of whose layers are recurrent (linear attention with a state, such as Qwen3.5's).

A recurrent layer mixes all tokens before a token into one state: a mask keeps nothing apart, and completions packed after one
another would read each other. Such a layer runs each prompt once, copies its state to the rows, and runs the rows from there.
All other layers run packed rows as they are.

rows      which packed positions are prompts, and which are completions
states    the states of recurrent layers after their prompts
mixer     recurrent layers that run packed rows
layers    the kinds of a decoder's layers
"""
